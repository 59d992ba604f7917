"""What kind of mistake a wrong gradient looks like, in plain sentences.

A hint is given only if the numbers support it (`evidence`): a wrong hint is worse than none. The
most specific hint comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from grads.check.diagnosis.evidence import Evidence, Pair, padding_of, sizes
from grads.check.diagnosis.places import Family, families, place
from grads.check.diagnosis.repairs import copies, nature, repairs
from grads.check.diagnosis.sums import duplicates, missing_terms

__all__ = ["Evidence", "diagnose", "place"]

MOST = 3  # hints
LISTED = 5  # most parts that are listed by name


def diagnose(evidence: Evidence) -> list[str]:
    """What is wrong with a gradient, the most specific hint first.

    Arguments: evidence, the two gradients of one tensor and what else is known of the case.
    Returns at most three sentences about the gradient, "it"; none where it is right. Raises
    ValueError where the two gradients differ in shape.
    """
    pair = evidence.pair
    bad = ~np.isfinite(pair.analytic)
    if bad.any():
        return [_not_finite(evidence, bad)]
    if not pair.wrong.any():
        return []
    whole = _whole(evidence, pair, full=True)
    if whole:
        return [f"it {phrase}" for phrase in whole[:MOST]]
    hints = _on_padding(evidence, pair)
    if any(hint.endswith("elsewhere it is right") for hint in hints):
        return hints
    hints += _through_outputs(evidence)
    repeated = [f"it {phrase}" for phrase in duplicates(evidence, pair)]
    if repeated:
        return (repeated + hints)[:MOST]
    hints += [f"it {phrase}" for phrase in missing_terms(evidence, pair)]
    hints += _parts(evidence, pair)
    return (hints or _scattered(evidence, pair))[:MOST]


def _whole(evidence: Evidence, pair: Pair, full: bool = False) -> list[str]:
    """Phrases that explain all of a gradient; `full` with the other tensors and outputs."""
    multiple = nature(pair, sizes(evidence))
    if multiple is not None:
        return [f"{multiple} everywhere" if multiple == "is zero" else multiple]
    return [*repairs(evidence, pair), *(copies(evidence, pair) if full else [])]


def _not_finite(evidence: Evidence, bad: np.ndarray) -> str:
    """How many entries are not finite, and where the first is."""
    if bad.all():
        return "it is not finite anywhere"
    first = np.unravel_index(int(bad.argmax()), bad.shape)
    return (f"it is not finite in {bad.sum()} of {bad.size} entries, the first at "
            f"{place(evidence.labels, [int(k) for k in first])}")


def _on_padding(evidence: Evidence, pair: Pair) -> list[str]:
    """The phrase on nonzero gradients of padding."""
    padding = padding_of(evidence)
    if padding is None:
        return []
    zero = pair.known & (np.abs(pair.numeric) <= pair.allowed)
    leaks = pair.wrong & padding & zero
    if not leaks.any():
        return []
    first = [int(k) for k in np.unravel_index(int(leaks.argmax()), leaks.shape)]
    elsewhere = "; elsewhere it is right" if not (pair.wrong & ~padding).any() else ""
    return [f"it is nonzero on padding, first at {place(evidence.labels, first)}{elsewhere}"]


# --- one output at a time -----------------------------------------------------------------------


def _through_outputs(evidence: Evidence) -> list[str]:
    """Which outputs' gradients are wrong, where others are right."""
    pairs = {output: evidence.pair_alone(output) for output in evidence.alone}
    pairs = {output: pair for output, pair in pairs.items()
             if pair.known.any() and np.isfinite(pair.analytic).all()}
    wrong = {output: pair for output, pair in pairs.items() if pair.wrong.any()}
    right = [output for output, pair in pairs.items()
             if output not in wrong and pair.significant.any()]
    if len(pairs) < 2 or not (wrong or right):
        return []
    if not wrong:
        everywhere = len(right) == len(evidence.alone)
        return ["it is right for each output alone, and wrong for all of them together"
                ] if everywhere else []
    if not right:
        return _unaffected(wrong)
    said: dict[str, list[str]] = {}
    for output, pair in wrong.items():
        phrase = next(iter(_whole(evidence, pair)), "is wrong")
        phrase = "is missing (zero)" if phrase.startswith("is zero") else phrase
        said.setdefault(phrase, []).append(output)
    if list(said) == ["is wrong"]:
        return [f"it is wrong only through output {_listed(list(wrong))}"]
    hints = [f"the gradient through output {_listed(outputs)} {phrase}"
             for phrase, outputs in said.items()]
    return ["; ".join([*hints, f"through {_listed(right)} it is right"])]


def _unaffected(wrong: dict[str, Pair]) -> list[str]:
    """The phrase where the difference is the same for every output: it does not depend on
    upstream."""
    if len(wrong) < 2:
        return []
    first, *rest = wrong.values()
    gap = first.analytic - first.numeric
    if all(pair.accepts(pair.analytic - gap) for pair in rest):
        return ["the difference is the same whichever output has an upstream gradient: something "
                "is added that does not depend on it"]
    return []


# --- one part of the tensor ---------------------------------------------------------------------


def _parts(evidence: Evidence, pair: Pair) -> list[str]:
    """The parts to which the error is confined, and its nature there; the smallest first."""
    if pair.wrong.sum() == 1 and pair.significant.sum() > 2:
        index = [int(k) for k in np.unravel_index(int(pair.wrong.argmax()), pair.wrong.shape)]
        return [f"only one entry of those compared is wrong: {place(evidence.labels, index)}"]
    named, found = sizes(evidence), families(evidence)
    chosen: list[Confined] = []
    confined = [part for family in found if (part := _confined(pair, family, named)) is not None]
    for part in sorted(confined, key=lambda part: part.size):
        if not any((inner.where <= part.where).all() for inner in chosen):
            chosen.append(part)
    if chosen:
        return [part.hint for part in chosen]
    healthy = [part for family in found if (part := _healthy(pair, family)) is not None]
    if healthy:
        return [max(healthy, key=lambda part: part.size).hint]
    for family in found:
        varied = _varied(pair, family, named)
        if varied:
            return varied
    return _exact_zeros(pair)


class Confined(NamedTuple):
    """Some parts of a tensor, and what is true of them only."""

    size: int
    where: np.ndarray  # bool
    hint: str


def _wrong_parts(pair: Pair, family: Family) -> tuple[Family, Family, np.ndarray] | None:
    """The wrong parts, the right ones, and a mask of the wrong ones: entirely wrong, or nearly
    so."""
    wrong = [part for part in family if pair.wrong[part.where].any()]
    right = [part for part in family
             if not pair.wrong[part.where].any() and pair.significant[part.where].any()]
    where = np.zeros(pair.wrong.shape, dtype=bool)
    for part in wrong:
        where |= part.where
    compared = int(((pair.wrong | pair.significant) & where).sum())
    if not wrong or not right or (pair.wrong & ~where).any():
        return None
    if 2 * int(pair.wrong.sum()) < compared:
        return None  # a few entries that happen to be here
    return wrong, right, where


def _confined(
    pair: Pair, family: Family, named: Sequence[tuple[str, float]]
) -> Confined | None:
    """The wrong parts, where they are the smaller share."""
    found = _wrong_parts(pair, family)
    if found is None:
        return None
    wrong, right, where = found
    size = int((pair.known & where).sum())
    if len(wrong) > len(right) or (len(wrong) == len(right) and 2 * size > pair.known.sum()):
        return None
    names = _listed([part.name for part in wrong])
    phrase = nature(pair.at(where), named)
    if phrase is None:
        return Confined(size, where, f"it is wrong only in {names}")
    return Confined(size, where, f"in {names} it {phrase}; elsewhere it is right")


def _healthy(pair: Pair, family: Family) -> Confined | None:
    """The right parts, if they are the smaller share; their size counts significant entries."""
    found = _wrong_parts(pair, family)
    if found is None:
        return None
    _, right, where = found
    names = _listed([part.name for part in right])
    return Confined(int((pair.significant & ~where).sum()), ~where, f"it is right only in {names}")


def _varied(pair: Pair, family: Family, named: Sequence[tuple[str, float]]) -> list[str]:
    """The phrase where each part has a factor of its own."""
    said = []
    for part in family:
        own = pair.at(part.where)
        phrase = nature(own, named)
        if phrase is None and own.wrong.any():
            return []
        if phrase is not None:
            said.append(f"{part.name} {phrase}")
    if not 2 <= len(said) <= LISTED:
        return []
    return [f"each part has a factor of its own: {'; '.join(said)}"]


def _exact_zeros(pair: Pair) -> list[str]:
    """The phrase where some entries are zero, without a named pattern."""
    wrong = pair.wrong
    if (wrong & (pair.analytic != 0)).any() or not (pair.significant & ~wrong).any():
        return []
    return [f"{pair.wrong.sum()} of the {pair.known.sum()} entries compared are zero and should "
            "not be; the others are right"]


def _scattered(evidence: Evidence, pair: Pair) -> list[str]:
    """The phrase of last resort: how many entries are wrong."""
    zero = pair.known & (np.abs(pair.numeric) <= pair.allowed)
    if not (pair.wrong & ~zero).any() and (pair.significant & ~pair.wrong).any():
        return ["it is wrong only where the numerical gradient is zero"]
    if not (pair.significant & ~pair.wrong).any():
        return ["the error is spread over all entries"] if pair.wrong.sum() > 1 else []
    return [f"{pair.wrong.sum()} of the {pair.known.sum()} entries compared are wrong"]


def _listed(names: Sequence[str]) -> str:
    """A list of names; a common first part is written once."""
    if len(names) > LISTED:
        return f"{_listed(names[:LISTED - 1])} and {len(names) - LISTED + 1} more"
    heads = {name.rsplit(" ", 1)[0] for name in names}
    if len(heads) == 1 and len(names) > 1 and all(" " in name for name in names):
        return f"{heads.pop()} {', '.join(name.rsplit(' ', 1)[1] for name in names)}"
    return ", ".join(names)
