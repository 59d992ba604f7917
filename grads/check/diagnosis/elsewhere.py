"""Evaluates a function with a wrong gradient again: at which other inputs is the gradient right,
and what does it get through single entries of the outputs?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grads.check.analytic import dense
from grads.check.case import Case
from grads.check.diagnosis.evidence import CLEAR, Array, Evidence, Pair
from grads.check.diagnosis.terms import factors, fitting, slopes
from grads.check.differentiate import at_entries
from grads.check.evaluate import Evaluator, entry_line
from grads.check.other_inputs import slopes_at

NEAR = 1e-2  # relative distance to other points, beyond the kinks at this one
POINTS = 3
UNSURE = 1e-3  # relative error up to which a derivative confirms
CLOSE = 1e-6  # relative difference of two derivatives that count as equal
STEP = 1e-4  # relative step that shows which outputs depend on an entry
EXACT = 1e-9  # relative difference of two derivatives by complex step, at most
FEW, MOST = 8, 64  # entries of an output that are asked for alone, at first and at most
SEEN = 3  # entries of the tensor that are examined
OVERWRITTEN = ("lacks what comes through some entries of an output: are repeated indices or "
               "overlapping windows overwritten (=, or += with an array of indices) where they "
               "should be added (+=, np.add.at), or is a step left out?")
MISPLACED = ("comes through other entries of an output than it should: is an index wrong, or a "
             "gather written where a scatter belongs?")

Arrays = Mapping[str, Array]


@dataclass
class Probe:
    """What can be evaluated again: the case, its function, and the method that suits it. All
    tensors of a check share one, with what was tried in the user's code."""

    case: Case
    evaluate: Evaluator
    method: str
    mended: dict[str, str] | None = None  # phrases of `edits` by tensor; None: nothing was tried
    stop: float | None = None  # CPU seconds at which `paths` ends; None: it has not begun

    def gradients(self, upstream: Arrays) -> dict[str, Array]:
        """The analytic gradients for other upstream gradients."""
        return self.gradients_at(self.evaluate.inputs, upstream)

    def gradients_at(self, inputs: Arrays, upstream: Arrays) -> dict[str, Array]:
        """The analytic gradients at other inputs."""
        gradients: Any = self.case.gradients({key: a.copy() for key, a in inputs.items()},
                                             {key: np.array(d) for key, d in upstream.items()})
        return {key: np.asarray(dense(d, key, inputs), float) for key, d in gradients.items()}


# --- at other inputs ------------------------------------------------------------------------------


def right_nearby(case: Case, evaluate: Evaluator, upstream: Arrays, name: str) -> bool:
    """Whether the gradient of a tensor is right at POINTS random points nearby."""
    rng, probe = np.random.default_rng(2), Probe(case, evaluate, "ridders")
    for _ in range(POINTS):
        inputs = {key: a + NEAR * np.maximum(1.0, np.abs(a)) * rng.normal(size=a.shape)
                  for key, a in evaluate.inputs.items()}
        if not _error(probe, inputs, upstream, name) <= 1:
            return False
    return True


def right_beside(probe: Probe, upstream: Arrays, name: str) -> bool:
    """Whether a gradient is right at points close by, as far as the function takes them."""
    rng = np.random.default_rng(2)
    for _ in range(POINTS):
        inputs = {key: np.asarray(a + NEAR * np.abs(a) * rng.normal(size=a.shape))
                  if a.dtype.kind == "f" else a for key, a in probe.evaluate.inputs.items()}
        v = rng.normal(size=inputs[name].shape)
        slopes = slopes_at(probe.case, probe.evaluate, upstream, inputs, {name: v}, probe.method)
        if slopes is not None:
            terms, numeric = slopes
            slope = float(numeric.value.sum())
            size = max(float(np.abs(terms).sum()), abs(slope))
            error = min(10 * float(numeric.error.sum()), UNSURE * size)
            if not abs(float(terms.sum()) - slope) <= CLOSE * size + error:
                return False
    return True


def _error(probe: Probe, inputs: Arrays, upstream: Arrays, name: str) -> float:
    """The error of a tensor's gradient at these inputs along a direction, as a multiple of the
    allowed error; infinite if there is no derivative."""
    v = np.random.default_rng(1).normal(size=inputs[name].shape)
    slopes = slopes_at(probe.case, probe.evaluate, upstream, inputs, {name: v}, probe.method)
    if slopes is None:
        return np.inf
    terms, numeric = slopes
    slope, size = float(numeric.value.sum()), float(np.abs(terms).sum())
    allowed = CLOSE * size + min(10 * float(numeric.error.sum()), UNSURE * size)
    return abs(float(terms.sum()) - slope) / allowed if slope and allowed else np.inf


# --- through single entries of an output ----------------------------------------------------------


class Through(NamedTuple):
    """The gradient of an entry of the tensor through single entries of an output."""

    output: str
    entry: tuple[int, ...]  # of the tensor
    places: Array  # (n, ndim), indices of the output
    pair: Pair  # (n,), the derivatives through them


def contributions(probe: Probe, evidence: Evidence) -> list[str]:
    """The phrase on what wrong entries of the tensor get through single entries of an output. The
    entries are not all in one row or column."""
    if probe.case.cacheless:
        return []
    paths: list[Through] = []
    gap = np.where(evidence.pair.wrong, evidence.pair.gap, 0.0)
    for _ in range(SEEN):
        index = tuple(int(k) for k in np.unravel_index(int(gap.argmax()), gap.shape))
        through = _through(probe, evidence, index) if gap.any() else None
        if through is None or (paths and through.output != paths[0].output):
            break
        paths.append(through)
        gap[index] = 0
        apart = gap.copy()
        for axis, k in enumerate(index):
            np.moveaxis(apart, axis, 0)[k] = 0
        gap = apart if apart.any() else gap
    if not paths:
        return []
    nothing = {key: np.zeros(np.shape(d)) for key, d in evidence.upstream.items()}
    if probe.gradients(nothing)[evidence.name].any():
        return ["is not zero where the upstream gradient is: is the upstream gradient forgotten?"]
    said = _slope_through(evidence, paths)
    if said:
        return [said]
    phrases = [_lost(through, evidence) for through in paths]
    kinds = {kind for kind, _ in phrases}
    if kinds & {"mixed", "none"}:
        return []
    if len({phrase for _, phrase in phrases}) == 1:
        return [phrases[0][1]]
    return [OVERWRITTEN if kinds == {"lost"} else MISPLACED]


def _through(probe: Probe, evidence: Evidence, index: tuple[int, ...]) -> Through | None:
    """The gradient of an entry through the first output through which it is wrong."""
    evaluate, x = probe.evaluate, probe.evaluate.inputs[evidence.name]
    step, place = STEP * max(1.0, abs(x[index])), int(np.ravel_multi_index(index, x.shape))
    line = entry_line(evaluate.inputs, evidence.name, place)
    for output, out in evaluate.along(line, np.array([step, -step])).items():
        change = np.abs(out[0] - out[1]).reshape(-1)
        if output in evidence.upstream and change.any() and change.size > 1:
            order = np.argsort(-change, kind="stable")
            for number in (FEW, MOST):
                through = _derivatives_through(probe, evidence, index, output, order[:number])
                if through is None or (_lost(through, evidence)[0] == "mixed" and (
                        _slope_through(evidence, [through]) is None)):
                    return None  # paths over several steps: single entries do not tell them apart
            if through is not None and through.pair.wrong.any():
                return through
    return None


def _derivatives_through(
    probe: Probe, evidence: Evidence, index: tuple[int, ...], output: str, where: Array
) -> Through | None:
    """The derivatives of single entries of an output by an entry of the tensor; None if one fails.
    """
    outputs = probe.case.outputs  # by this name, so that its module is found for complex numbers

    def picked(inputs: Any) -> dict[str, Any]:
        flat = outputs(inputs)[output].reshape(-1)
        return {str(p): flat[p:p + 1] for p in where}

    name, analytic = evidence.name, []
    place = int(np.ravel_multi_index(index, evidence.analytic.shape)) if index else 0
    try:
        evaluator = Evaluator(picked, probe.evaluate.inputs)
        numeric = at_entries(evaluator, evaluator.inputs, {str(p): np.ones(1) for p in where},
                             {name: [place]}, probe.method)[name]
        for p in where:
            only = {key: np.zeros(np.shape(d)) for key, d in evidence.upstream.items()}
            only[output].reshape(-1)[p] = 1
            analytic.append(probe.gradients(only)[name][index])
    except Exception:  # not differentiable so: nothing is said
        return None
    probe.evaluate.evaluations += evaluator.evaluations
    value = numeric.value[:, 0]
    allowed = EXACT * np.abs([*value, *analytic]).max() + 10 * numeric.error[:, 0]
    places = np.array(np.unravel_index(where, probe.evaluate.outputs[output].shape)).T
    return Through(output, index, places, Pair(np.array(analytic), value, allowed))


def _slope_through(evidence: Evidence, paths: list[Through]) -> str | None:
    """The phrase on a wrong factor of everything that comes through the entries of an output."""
    y = evidence.outputs[paths[0].output]
    values = fitting(evidence.inputs, y.shape)
    pair = Pair(*(np.concatenate(parts) for parts in zip(*(f.pair for f in paths), strict=True)))
    if pair.significant.sum() < SEEN:
        return None
    places = tuple(np.concatenate([through.places for through in paths]).T)
    values = {name: value[places] for name, value in values.items()}
    with np.errstate(all="ignore"):
        return next(slopes(pair, [(y[places], y)]), None) or next(
            factors(pair, values, ""), None)


def _lost(through: Through, evidence: Evidence) -> tuple[str, str]:
    """The kind of mistake, and its phrase.

    Kinds: "lost", nothing comes through some entries of the output; "extra", something comes
    through entries without influence; "other", both; "none", all is lost; "mixed", none of these.
    """
    output, entry, places, pair = through
    shape = evidence.outputs[output].shape
    has, holds = pair.significant, np.abs(pair.analytic) > CLEAR * pair.allowed
    lost, extra, kept = has & ~holds, holds & ~has, has & ~pair.wrong
    if (pair.wrong & ~lost & ~extra).any():
        return "mixed", ""
    if extra.any() and lost.any():
        across = [{axis for axis in range(len(shape)) if len(set(places[mask, axis])) == 1}
                  for mask in (has, holds)]
        wrong_axis = across[0] and across[1] and not across[0] & across[1]
        return "other", (f"comes through a sum over the wrong axis of output {output}"
                         if wrong_axis else MISPLACED)
    if extra.any():
        return "extra", (f"has what comes through entries of output {output} on which it has no "
                         "influence: is a mask forgotten, or a sum taken over too many axes?")
    if not kept.any():
        return "none", ""
    if shape == evidence.analytic.shape and (places[kept] == entry).all():
        return "lost", (f"counts only what comes through its own entry of output {output}: are its "
                        "paths to the others (the cross terms of a softmax, a mean, a cumulative "
                        "sum) forgotten?")
    for axis in range(len(shape)):
        indices = [set(places[mask, axis].tolist()) for mask in (kept, lost)]
        for seen, said in zip(indices, (
            "counts only what comes through {}: is a sum over axis {} forgotten, or are the others "
            "overwritten (= for +=, or += with repeated indices in place of np.add.at)?",
            "lacks what comes through {}: is it left out, or overwritten (= for +=, or += with "
            "repeated indices in place of np.add.at)?"), strict=True):
            if len(seen) == 1 and not indices[0] & indices[1]:
                return "lost", said.format(
                    f"index {seen.pop()} of axis {axis} of output {output}", axis)
    return "lost", OVERWRITTEN
