"""Pictures of pruning: Figures 6.6 to 6.11 of the thesis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from lstm.parameters import Axis, Weight
from nmt.analysis.redundancy import Part, Point, Share, Survivors, Trained
from nmt.evaluation.curves import Curve
from nmt.evaluation.pictures import (
    MARKERS,
    finish,
    new_axes,
    new_figure,
    require_drawing,
    save,
    style,
)
from nmt.pruning.run import RETRAINED

DPI = 100  # pixels an inch, so that a picture's pixel is a weight
LARGEST = 1600  # the most pixels of a side; in larger matrices a pixel stands for several weights
PERCENT = "percent of the weights pruned"


def draw_schemes(points: Sequence[Point], path: Path) -> None:
    """Draw BLEU and perplexity against the percentage pruned, a line for each scheme (Figure 6.6).
    """
    lines = {scheme: [(point.percent, point.bleu, point.perplexity) for point in points
                      if point.scheme == scheme]
             for scheme in dict.fromkeys(point.scheme for point in points)}
    _draw_lines(lines, path, "What pruning costs, by scheme")


def draw_retraining(points: Sequence[Point], trained: Sequence[Trained], path: Path) -> None:
    """Draw models that were pruned, pruned and retrained, or sparse from the beginning (Figure
    6.9), for class-blind or else for the first scheme of the points."""
    schemes = list(dict.fromkeys(point.scheme for point in points))
    scheme = "class-blind" if "class-blind" in schemes else schemes[0]
    lines = {"pruned": [(point.percent, point.bleu, point.perplexity) for point in points
                        if point.scheme == scheme]}
    for how in dict.fromkeys(run.how for run in trained):
        lines["pruned and retrained" if how == RETRAINED else how] = sorted(
            (run.percent, run.bleu, run.perplexity) for run in trained if run.how == how)
    _draw_lines(lines, path, f"Pruned ({scheme}), retrained, sparse from the beginning")


def _draw_lines(
    lines: Mapping[str, Sequence[tuple[float, float | None, float]]], path: Path, title: str
) -> None:
    """Draw lines of (percent, BLEU, perplexity), by name, in two panels; in one without BLEU."""
    scored = any(bleu is not None for line in lines.values() for _, bleu, _ in line)
    figure = new_figure(path, 10 if scored else 5.6)
    panels = figure.subplots(1, 2 if scored else 1, squeeze=False)[0]
    for number, (name, line) in enumerate(lines.items()):
        if scored:
            panels[0].plot([x for x, _, _ in line], [y for _, y, _ in line], label=name,
                           **style(number))
        panels[-1].plot([x for x, _, _ in line], [y for _, _, y in line], label=name,
                        **style(number))
    if scored:
        panels[0].set(xlabel=PERCENT, ylabel="BLEU", ylim=(0, None))
        panels[0].grid(True, linewidth=0.4, alpha=0.6)
    panels[-1].set(xlabel=PERCENT, ylabel="perplexity", yscale="log")
    from matplotlib.ticker import ScalarFormatter

    for axis in ("major", "minor"):
        getattr(panels[-1].yaxis, f"set_{axis}_formatter")(ScalarFormatter())
    finish(figure, panels[-1], path, title)


def draw_classes(parts: Sequence[Part], path: Path) -> None:
    """Draw the change of perplexity by class, each pruned alone, a bar for each scheme (Figure
    6.7)."""
    schemes = list(dict.fromkeys(effect.scheme for effect in parts))
    names = list(dict.fromkeys(effect.name for effect in parts))
    figure, axes = new_axes(path, max(6.4, 0.8 * len(names) + 1.5))
    width = 0.8 / len(schemes)
    for number, scheme in enumerate(schemes):
        changes = {effect.name: effect.change for effect in parts if effect.scheme == scheme}
        places = [place + width * (number - (len(schemes) - 1) / 2) for place in range(len(names))]
        axes.bar(places, [changes[name] for name in names], width, label=scheme,
                 color=f"C{number}", hatch=("", "//", "..")[number % 3], edgecolor="white")
    axes.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names])
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set(ylabel="change of perplexity")
    if max(abs(effect.change) for effect in parts) > 30:
        axes.set_yscale("symlog", linthresh=1)
    finish(figure, axes, path, "Change of perplexity, each class pruned alone")


def draw_largest(parts: Sequence[Part], path: Path) -> None:
    """Draw the change of perplexity against the largest pruned weight, by class (Figure 6.8), for
    class-uniform or else for the first scheme."""
    schemes = list(dict.fromkeys(effect.scheme for effect in parts))
    scheme = "class-uniform" if "class-uniform" in schemes else schemes[0]
    figure, axes = new_axes(path)
    for number, effect in enumerate(effect for effect in parts if effect.scheme == scheme):
        axes.plot([effect.largest], [effect.change], MARKERS[number % len(MARKERS)],
                  label=effect.name, color=f"C{number % 10}", markersize=8)
    axes.set(xlabel="magnitude of the largest deleted weight", ylabel="change of perplexity")
    finish(figure, axes, path, f"Each class pruned alone, {scheme}")


def draw_retraining_curves(curve: Curve, trained: Sequence[Trained], path: Path) -> None:
    """Draw the dev set's loss while a model is trained, pruned and retrained (Figure 6.10).

    The vertical line is where weights are pruned; the horizontal line is the best loss before.
    """
    figure, axes = new_axes(path)
    axes.plot(*zip(*curve.test_cost, strict=True), label=curve.name, **style(0))
    end = curve.test_cost[-1][0]
    for number, run in enumerate((run for run in trained if run.how == RETRAINED), 1):
        first = [] if run.pruned_perplexity is None else [(0, math.log(run.pruned_perplexity))]
        points = [(end + step, cost) for step, cost in (*first, *run.curve.test_cost)]
        axes.plot(*zip(*points, strict=True), label=f"{run.percent:g} % pruned ({run.scheme})",
                  **style(number))
    axes.axvline(end, color="black", linestyle=":", linewidth=1)
    axes.axhline(min(cost for _, cost in curve.test_cost), color="black", linestyle=":",
                 linewidth=1)
    axes.set(xlabel="updates", ylabel="loss of the dev set (ln perplexity)")
    finish(figure, axes, path, "Trained, pruned (vertical line), retrained")


def draw_survivors(survivors: Survivors, path: Path) -> None:
    """Draw the share of weights left in each class, and in each layer by gate and input (section
    6.2.3)."""
    count = len(survivors.gates)
    figure = new_figure(path, 5.6, 3.2 + 2.6 * count)
    panels = figure.subplots(1 + count, 1, squeeze=False)[:, 0]
    names = list(survivors.classes)
    percents = [_percent(survivors.classes[name]) for name in names]
    panels[0].barh(range(len(names)), percents, color="C0")
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    panels[0].set(xlabel="percent of the weights left",
                  title=f"{survivors.percent:g} % pruned, {survivors.scheme}")
    for axes, (layer, rows) in zip(panels[1:], survivors.gates.items(), strict=True):
        inputs = list(next(iter(rows.values())))
        values = np.array([[_percent(row[key]) for key in inputs] for row in rows.values()])
        axes.imshow(values, cmap="gray", vmin=0, aspect="auto")
        for (y, x), value in np.ndenumerate(values):
            axes.text(x, y, f"{value:.1f}", ha="center", va="center",
                      color="black" if value > values.max() / 2 else "white")
        axes.set_xticks(range(len(inputs)), [_input(key) for key in inputs])
        axes.set_yticks(range(len(rows)), list(rows))
        axes.set(title=f"{layer}: percent left")
    save(figure, path)


def _percent(share: Share) -> float:
    return 100 * share.kept / share.size


def _input(name: str) -> str:
    """The label of a layer's input."""
    return {"x": "feed-forward x", "h": "recurrent h"}.get(name, f"fed {name}")


def draw_mask(name: str, weight: Weight, mask: np.ndarray, path: Path) -> None:
    """Draw a weight as a picture (Figure 6.11): black is pruned, white is left.

    A column of a table is a word, the most frequent one first. Lines separate gates and inputs. A
    pixel is a weight or, if a side has more than LARGEST weights, the mean of several.
    """
    require_drawing(str(path))
    from matplotlib.figure import Figure

    axes_of = list(weight.axes)
    if axes_of[0].name == "word" or mask.ndim == 1:
        mask = np.atleast_2d(mask.T)
        axes_of = axes_of[::-1] if len(axes_of) == 2 else [Axis("", 1), *axes_of]
    image, steps = _shrunk(mask)
    height, width = image.shape
    size = ((max(width, 300) + 130) / DPI, (height + 90) / DPI)
    figure = Figure(figsize=size, dpi=DPI)
    axes = figure.add_axes((90 / DPI / size[0], 50 / DPI / size[1], width / DPI / size[0],
                            height / DPI / size[1]))
    axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
    for spine in axes.spines.values():  # moved outward, so that they do not hide the edge
        spine.set_position(("outward", 1.5))
    _edges(axes, "y", axes_of[0], steps[0])
    _edges(axes, "x", axes_of[1], steps[1])
    axes.set_title(f"{name}: {100 * mask.mean():.1f} % left", fontsize=9, loc="left")
    save(figure, path, DPI)


def _shrunk(mask: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
    """The mask as brightness, and how many rows and columns share a pixel."""
    steps = [math.ceil(size / LARGEST) for size in mask.shape]
    image = mask.astype(float)
    for axis, step in enumerate(steps):
        starts = range(0, mask.shape[axis], step)
        counts = [min(step, mask.shape[axis] - start) for start in starts]
        shape = (-1, 1) if axis == 0 else (1, -1)
        image = np.add.reduceat(image, list(starts), axis) / np.reshape(counts, shape)
    return image, (steps[0], steps[1])


def _edges(axes: Any, axis_name: str, axis: Any, step: int) -> None:
    """Add the names of an axis's parts at their middles, and lines between them; an axis without
    parts has its own name."""
    parts = axis.parts or ((axis.name, axis.size),)
    ends = list(accumulate(size for _, size in parts))
    middles = [(end - size / 2) / step - 0.5 for end, (_, size) in zip(ends, parts, strict=True)]
    getattr(axes, f"set_{axis_name}ticks")(middles, [name for name, _ in parts], fontsize=8)
    for end in ends[:-1]:
        line = axes.axhline if axis_name == "y" else axes.axvline
        line(end / step - 0.5, color="C3", linewidth=0.8)
