"""Finds the entries of a forward array that a gradient of some entries belongs to.

Examples are `dx[2]`, `dx[0, 1:3]`, and the `dn` of iteration t, which belongs to `n[t]`.
"""

from __future__ import annotations

import re

import numpy as np

from grads.stepper.trace import Origin, Target
from grads.stepper.tracing.pairing import AssignedGradient, Pairs, Partner, root_of, squeezed
from grads.stepper.tracing.replay import assigned

INDEX = re.compile(r"\[([-\d:, ]+)\]")


def entries_for(pairs: Pairs, gradient: AssignedGradient) -> Partner | None:
    """The entries of a forward array that a gradient belongs to, for a gradient without a variable
    of its name."""
    step = pairs.backward.steps[gradient.origin[0]]
    target = pairs.backward.target(gradient.origin)
    name, frame = pairs.forward_name(step, target), pairs.frame_of(step)
    if gradient.status not in ("unpaired", "same") or name is None or frame is None:
        return None
    if "[" in name:
        return written_last(pairs, frame, name, target)
    assigned_then = [origin for _, index in reversed(step.own_loops)
                     for all_steps in (name, f"{name}s")
             for origin in pairs.variables[frame].get(f"{all_steps}[{index}]", [])]
    return pairs.fitting_whole(assigned_then[-1], target) if (
        assigned_then and gradient.status == "unpaired") else None


def written_last(pairs: Pairs, frame: int, name: str, target: Target) -> Partner | None:
    """The entries with this name, at the assignment that wrote them last; None if several
    assignments did."""
    root = root_of(name)
    assignments = pairs.variables[frame].get(root, [])
    shape = pairs.forward.target(assignments[-1]).shape if assignments else None
    sought = None if shape is None else positions(name[len(root):], shape)
    if shape is None or sought is None or squeezed(sought.shape) != squeezed(target.shape or ()):
        return None
    for origin, text in written(pairs, frame, root):
        places = positions(text, shape)
        if places is None or pairs.forward.target(origin).place is None:
            return None
        covered = np.isin(sought, places)
        if covered.all():
            order = np.argsort(places, axis=None)
            entries = order[np.searchsorted(places.ravel(), sought.ravel(), sorter=order)]
            return Partner(name, origin[0], assigned(pairs.forward, origin), places.shape, entries)
        if covered.any():
            return None
    return None


def written(pairs: Pairs, frame: int, root: str) -> list[tuple[Origin, str]]:
    """The assignments to an array or to parts of it, the latest first, each with its index."""
    assignments = [(origin, name[len(root):]) for name, origins in pairs.variables[frame].items()
             if root_of(name) == root for origin in origins]
    return sorted(assignments, reverse=True)


def positions(index: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """The flat positions of `x[0][1:3]` in an array x; None if the index is not made of numbers."""
    parts = INDEX.findall(index)
    if "".join(f"[{index}]" for index in parts) != index:
        return None
    flat_positions = np.arange(int(np.prod(shape))).reshape(shape)
    try:
        for subscript in parts:
            flat_positions = np.asarray(flat_positions[index_of(subscript)])
    except (IndexError, ValueError):
        return None
    return flat_positions


def index_of(text: str) -> tuple[int | slice, ...]:
    """The index that a text such as "0, 1:3" stands for."""
    return tuple(slice(*(int(end) if end else None for end in axis.split(":"))) if ":" in axis
                 else int(axis) for axis in text.split(", "))
