"""Says in plain sentences which kind of mistake a wrong gradient looks like.

A hint is given only if the numbers support it (`evidence`), because a wrong hint is worse than no
hint. The most specific hint comes first.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import groupby

import numpy as np

from grads.check.diagnosis.edits import Edits
from grads.check.diagnosis.elsewhere import Probe
from grads.check.diagnosis.evidence import Evidence, Pair
from grads.check.diagnosis.multiples import nature, sizes
from grads.check.diagnosis.paths import path
from grads.check.diagnosis.places import Family, families, place

__all__ = ["Evidence", "diagnose", "place"]

MOST = 3  # hints
LISTED = 5  # most parts that are listed by name
ONLY = "only "  # in phrases that say where a gradient is wrong, not how
ALIKE = 1e-6  # relative difference of gradients that are right


def diagnose(evidence: Evidence, probe: Probe | None = None) -> list[str]:
    """The hints on what is wrong with a gradient, the most specific hint first.

    Arguments: evidence, the two gradients of a tensor and everything else that is known of the
    case; probe, which evaluates the function again if the numbers alone do not tell, or None.
    Returns at most three sentences about the gradient, called "it"; none if it is right. Raises
    ValueError if the two gradients differ in shape.
    """
    pair = evidence.pair
    bad = ~np.isfinite(pair.analytic)
    if bad.any():
        return [_not_finite(evidence, bad)]
    if not pair.wrong.any():
        return []
    code = _from_code(evidence, probe, nature(pair, []) is not None)
    multiple = nature(pair, [] if code else sizes(evidence))  # a length may fit by accident
    said = [f"{multiple} everywhere" if multiple == "is zero" else multiple, code]
    if any(said):
        return [f"it {phrase}" for phrase in said if phrase]
    hints = _parts(evidence, pair)
    named = [hint for hint in hints if ONLY not in hint]
    return (named or hints or _scattered(pair))[:MOST]


def _from_code(evidence: Evidence, probe: Probe | None, plain: bool) -> str | None:
    """The phrase on the expression of the user's code that is wrong. Argument: plain, whether the
    gradient is zero or a multiple of the right one."""
    if probe is None or evidence.pair.gap.max() < ALIKE * np.abs(
            evidence.pair.numeric[evidence.pair.known]).max(initial=0.0):
        return None
    try:
        # the code is run many times, whatever it prints
        with redirect_stdout(StringIO()), warnings.catch_warnings(action="ignore"):
            if probe.mended is None:
                probe.mended = {}
                probe.mended = Edits(probe, evidence).phrases
            phrase = probe.mended.get(evidence.name) or path(probe, evidence, plain)
            probe.mended |= {evidence.name: phrase} if phrase else {}
    except Exception:  # the code cannot be run in another form
        phrase = None
    return phrase or probe.doubted.get(evidence.name)


def _not_finite(evidence: Evidence, bad: np.ndarray) -> str:
    """The sentence on how many entries are not finite, and where the first is."""
    if bad.all():
        return "it is not finite anywhere"
    first = np.unravel_index(int(bad.argmax()), bad.shape)
    return (f"it is not finite in {bad.sum()} of {bad.size} entries, the first at "
            f"{place(evidence.labels, [int(k) for k in first])}")


# --- one part of the tensor ---------------------------------------------------------------------


def _parts(evidence: Evidence, pair: Pair) -> list[str]:
    """The hints on the parts to which the error is confined, the smallest part first. If the right
    parts are the smaller share, a hint on them."""
    if pair.wrong.sum() == 1 and pair.significant.sum() > 2:
        index = [int(k) for k in np.unravel_index(int(pair.wrong.argmax()), pair.wrong.shape)]
        return [f"only one entry of those compared is wrong: {place(evidence.labels, index)}"]
    confined: list[tuple[int, np.ndarray, str]] = []
    healthy: list[tuple[int, str]] = []
    splits = (_split(pair, family) for family in families(evidence))
    for wrong, right, where in filter(None, splits):
        size = int((pair.known & where).sum())
        if (len(wrong), 2 * size) > (len(right), pair.known.sum()):
            names = _listed([region.name for region in right])
            healthy.append((int((pair.significant & ~where).sum()), f"it is right only in {names}"))
            continue
        names = _listed([region.name for region in wrong])
        phrase = nature(pair.at(where), sizes(evidence))
        confined.append((size, where, f"it is wrong only in {names}" if phrase is None else
                         f"in {names} it {phrase}; elsewhere it is right"))
    chosen: list[tuple[np.ndarray, str]] = []
    for _, where, hint in sorted(confined, key=lambda region: region[0]):
        if not any((inner <= where).all() for inner, _ in chosen):
            chosen.append((where, hint))
    return [hint for _, hint in chosen] or [hint for _, hint in sorted(healthy)[-1:]]


def _split(pair: Pair, family: Family) -> tuple[Family, Family, np.ndarray] | None:
    """The wrong parts, the right parts, and a mask of the wrong parts; None if these are not
    entirely or nearly wrong."""
    wrong = [region for region in family if pair.wrong[region.where].any()]
    right = [region for region in family
             if not pair.wrong[region.where].any() and pair.significant[region.where].any()]
    where = np.zeros(pair.wrong.shape, dtype=bool)
    for region in wrong:
        where |= region.where
    compared = int(((pair.wrong | pair.significant) & where).sum())
    if not wrong or not right or (pair.wrong & ~where).any():
        return None
    if 2 * int(pair.wrong.sum()) < compared:
        return None  # a few entries that happen to be here
    if not pair.known.all() and 2 * len(wrong + right) > (pair.wrong | pair.significant).sum():
        return None  # about one entry was compared in each
    return wrong, right, where


def _scattered(pair: Pair) -> list[str]:
    """The hint if no other is known: how many entries are wrong."""
    if not (pair.significant & ~pair.wrong).any():
        spread = ("the error is spread over all entries" + " compared" * (not pair.known.all())
                  + " but those near zero" * bool(pair.wrong.sum() < pair.known.sum()))
        return [spread] if pair.wrong.sum() > 1 else []
    return [f"{pair.wrong.sum()} of the {pair.known.sum()} entries compared are wrong"]


def _listed(names: Sequence[str]) -> str:
    """A list of names; indices in a row are written as "2 to 5"."""
    matches = [re.fullmatch(r"(\D*)(\d+)(.*)", name) for name in names]
    if len({match and (match[1], match[3]) for match in matches}) == 1 and matches[0]:
        numbers = sorted(int(match[2]) for match in matches if match)
        runs = [[k for _, k in run] for _, run in groupby(
            enumerate(numbers), lambda pair: pair[1] - pair[0])]
        said = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
        shortened = [*said[:LISTED - 1], f"{len(said) - LISTED + 1} more"]
        return matches[0][1] + ", ".join(said if len(said) <= LISTED else shortened) + matches[0][3]
    return ", ".join(names)
