"""The redundancy of a trained model: how much quality pruning costs, by scheme, percentage and
class.

Source: thesis, section 6.2.3. `sweep` gives Figure 6.6, `breakdown` Figures 6.7 and 6.8;
`survivors` gives "Distribution of redundancy" (by layer, gate, recurrent or feed-forward input, and
words that lose all their weights), and `stored_bytes` "Storage size".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lstm.parameters import Weight
from nmt.base_system import BaseSystem
from nmt.evaluation.curves import Curve
from nmt.pruning.classes import classes, in_order
from nmt.pruning.run import masks_for, stored_parameters, stored_weights, with_masks
from nmt.pruning.schemes import Masks

Measure = Callable[[Any], dict[str, float]]  # system -> its "perplexity" and, perhaps, "bleu"
Tell = Callable[[str], None]


class Point(NamedTuple):
    """The scores of a pruned model on the evaluation set."""

    scheme: str
    percent: float  # percentage of the weights that may be pruned
    perplexity: float  # infinite if it overflows
    bleu: float | None  # 0 to 100; None for language models, or if not requested
    bytes: int  # size of the remaining weights and a bit mask


class Part(NamedTuple):
    """A class that is pruned alone, by as much as when a scheme prunes the whole model."""

    scheme: str
    name: str  # of the class
    size: int  # weights
    pruned: int
    largest: float  # magnitude of the largest pruned weight; 0 if none is pruned
    change: float  # change of the perplexity


class Share(NamedTuple):
    """How many weights of a group are left."""

    kept: int
    size: int


class Survivors(NamedTuple):
    """The weights left in a pruned model."""

    percent: float
    scheme: str
    classes: dict[str, Share]
    gates: dict[str, dict[str, dict[str, Share]]]  # layer -> gate -> input; "h" is recurrent
    words: dict[str, Share]  # class of a table -> words with at least one weight left


class Trained(NamedTuple):
    """The scores of a run that was trained after pruning."""

    name: str
    how: str  # RETRAINED or FROM_SCRATCH of `nmt.pruning.run`
    scheme: str
    percent: float
    perplexity: float
    bleu: float | None
    train_perplexity: float  # of as many training pairs as the evaluation set has, without dropout
    pruned_perplexity: float | None  # of the dev set, before this training
    curve: Curve


def sweep(
    system: BaseSystem, measure: Measure, percents: Sequence[float], schemes: Sequence[str],
    tell: Tell = lambda text: None,
) -> list[Point]:
    """Prune by each scheme and percentage, and measure (Figure 6.6).

    The unpruned model is measured once. tell: called with a line for each point. Raises UserError
    as `nmt.pruning.run.prune`.
    """
    points: list[Point] = []
    unpruned: dict[str, float] = {}
    for scheme in schemes:
        for percent in percents:
            masks = masks_for(system, percent, scheme)
            if percent == 0:
                unpruned = unpruned or measure(system)
            scores = unpruned if percent == 0 else measure(with_masks(system, masks))
            point = Point(scheme, percent, scores["perplexity"], scores.get("bleu"),
                          stored_bytes(system, masks))
            points.append(point)
            tell(describe(point))
    return points


def describe(point: Point) -> str:
    """A line on a point."""
    score = "" if point.bleu is None else f", BLEU {point.bleu:.2f}"
    return f"{point.scheme} {point.percent:g} %: perplexity {point.perplexity:.2f}{score}"


def stored_bytes(system: BaseSystem, masks: Masks) -> int:
    """The bytes that `nmt prune --sparse` writes for the parameters: the values that are left, and
    bit masks."""
    count = 0
    for name, array in stored_parameters(system).items():
        mask = masks.get(name)
        kept = array.size if mask is None else int(mask.sum())
        count += kept * array.itemsize + (0 if mask is None else (mask.size + 7) // 8)
    return count


def breakdown(
    system: BaseSystem, measure: Measure, percent: float, schemes: Sequence[str],
    tell: Tell = lambda text: None,
) -> list[Part]:
    """Prune each class alone, by its share in each scheme, and measure (Figures 6.7 and 6.8)."""
    named, parts = classes(stored_weights(system)), []
    parameters, before = stored_parameters(system), measure(system)["perplexity"]
    for scheme in schemes:
        masks = masks_for(system, percent, scheme)
        for weight_class in in_order(named.values()):
            masks_of_class = {name: mask for name, mask in masks.items()
                              if named[name] == weight_class}
            after = measure(with_masks(system, masks_of_class))["perplexity"]
            effect = _breakdown(scheme, weight_class, masks_of_class, parameters, after - before)
            parts.append(effect)
            tell(f"{scheme}, {weight_class}: perplexity {effect.change:+.2f}, {effect.pruned:,} of "
                 f"{effect.size:,} weights, largest {effect.largest:.3f}")
    return parts


def _breakdown(
    scheme: str, name: str, masks: Masks, parameters: Mapping[str, np.ndarray], change: float
) -> Part:
    """The facts on the pruned weights of a class, and the change that pruning makes."""
    deleted = np.concatenate([np.abs(parameters[key][~mask]) for key, mask in masks.items()])
    size = sum(mask.size for mask in masks.values())
    return Part(scheme, name, size, deleted.size, float(deleted.max(initial=0.0)), change)


def survivors(
    weights: Mapping[str, Weight], masks: Masks, percent: float, scheme: str
) -> Survivors:
    """The weights left by class, by gate and input of each layer, and by word of each table."""
    named = classes(weights)
    by_class: dict[str, Share] = {}
    gates: dict[str, dict[str, dict[str, Share]]] = {}
    words: dict[str, Share] = {}
    for name, mask in masks.items():
        weight_class, first = named[name], weights[name].axes[0]
        by_class[weight_class] = _added(by_class.get(weight_class), mask)
        if first.name == "word":
            words[weight_class] = _added(words.get(weight_class), np.any(mask, axis=1))
        if first.name == "gate" and mask.ndim == 2:
            _add_gates(gates.setdefault(weight_class, {}), weights[name], mask)
    ordered = in_order(by_class)
    return Survivors(percent, scheme, {name: by_class[name] for name in ordered},
                     {name: gates[name] for name in ordered if name in gates}, words)


def _add_gates(gates: dict[str, dict[str, Share]], weight: Weight, mask: np.ndarray) -> None:
    """Add a layer's weights (gates, inputs) to the shares by gate and input."""
    rows, columns = (axis.parts or ((axis.name, axis.size),) for axis in weight.axes)
    for gate, gate_rows in _slices(rows):
        for input_name, input_columns in _slices(columns):
            row = gates.setdefault(gate, {})
            row[input_name] = _added(row.get(input_name), mask[gate_rows, input_columns])


def _slices(parts: Sequence[tuple[str, int]]) -> list[tuple[str, slice]]:
    """The slices of the parts of an axis."""
    ends = np.cumsum([size for _, size in parts]).tolist()
    return [(name, slice(end - size, end)) for (name, size), end in zip(parts, ends, strict=True)]


def _added(share: Share | None, mask: np.ndarray) -> Share:
    """A share with the weights of another mask added."""
    kept, size = share or (0, 0)
    return Share(kept + int(mask.sum()), size + mask.size)
