"""The entries of a forward array that a part of a gradient belongs to: dx[2] or dx[0, 1:3], or the
dn of iteration t, for n[t]."""

from __future__ import annotations

import re

import numpy as np

from grads.stepper.trace import Origin, Target
from grads.stepper.tracing.pairing import AssignedGradient, Pairs, Partner, root_of, squeezed
from grads.stepper.tracing.replay import assigned

INDEX = re.compile(r"\[([-\d:, ]+)\]")


def entries_for(pairs: Pairs, gradient: AssignedGradient) -> Partner | None:
    """The entries of a forward array that a gradient is for which has no variable of its name."""
    step = pairs.backward.steps[gradient.origin[0]]
    target = pairs.backward.target(gradient.origin)
    name, frame = pairs.forward_name(step, target), pairs.frame_of(step)
    if gradient.status not in ("unpaired", "same") or name is None or frame is None:
        return None
    if "[" in name:
        return written_last(pairs, frame, name, target)
    found = [one for _, index in reversed(step.own_loops) for all_steps in (name, f"{name}s")
             for one in pairs.variables[frame].get(f"{all_steps}[{index}]", [])]
    return pairs.fitting_whole(found[-1], target) if (
        found and gradient.status == "unpaired") else None


def written_last(pairs: Pairs, frame: int, name: str, target: Target) -> Partner | None:
    """The entries by this name, of the assignment that wrote them last; None where several did."""
    root = root_of(name)
    whole = pairs.variables[frame].get(root, [])
    shape = pairs.forward.target(whole[-1]).shape if whole else None
    wanted = None if shape is None else positions(name[len(root):], shape)
    if shape is None or wanted is None or squeezed(wanted.shape) != squeezed(target.shape or ()):
        return None
    for origin, text in written(pairs, frame, root):
        here = positions(text, shape)
        if here is None or pairs.forward.target(origin).place is None:
            return None
        found = np.isin(wanted, here)
        if found.all():
            order = np.argsort(here, axis=None)
            entries = order[np.searchsorted(here.ravel(), wanted.ravel(), sorter=order)]
            return Partner(name, origin[0], assigned(pairs.forward, origin), here.shape, entries)
        if found.any():
            return None
    return None


def written(pairs: Pairs, frame: int, root: str) -> list[tuple[Origin, str]]:
    """The assignments to an array or to parts of it, the last first, each with its index."""
    found = [(origin, name[len(root):]) for name, origins in pairs.variables[frame].items()
             if root_of(name) == root for origin in origins]
    return sorted(found, reverse=True)


def positions(index: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """The flat positions of x[0][1:3] in an array x; None where the index is not of numbers."""
    parts = INDEX.findall(index)
    if "".join(f"[{one}]" for one in parts) != index:
        return None
    found = np.arange(int(np.prod(shape))).reshape(shape)
    try:
        for one in parts:
            found = np.asarray(found[index_of(one)])
    except (IndexError, ValueError):
        return None
    return found


def index_of(text: str) -> tuple[int | slice, ...]:
    """The index that is written so: "0, 1:3"."""
    return tuple(slice(*(int(end) if end else None for end in one.split(":"))) if ":" in one
                 else int(one) for one in text.split(", "))
