"""The learned lengths of ScaleNorms by depth (Nguyen, 2019, Figures 3.6 and 3.7)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backend import to_host
from backend.errors import UserError
from nmt.evaluation.pictures import add_legend, new_figure, save, style
from nmt.system import System

SUBLAYERS = {
    ("encoder", "attention"): "encoder attention",
    ("decoder", "attention"): "decoder attention",
    ("decoder", "source"): "decoder-encoder attention",
    ("encoder", "feed_forward"): "encoder feed-forward",
    ("decoder", "feed_forward"): "decoder feed-forward",
}


class Scale(NamedTuple):
    """The g of one ScaleNorm (Nguyen 3.6)."""

    sublayer: str  # "encoder attention", ..., "encoder, last", "decoder, last"
    depth: int  # layers from 1; of a stack's last norm, one more than its layers
    g: float


def scales_of(system: System, run: str) -> list[Scale]:
    """The g of every ScaleNorm of a Transformer by depth, attention sublayers first.

    Raises UserError, naming the run, if it has no learned g.
    """
    scales, parameters = [], system.parameters
    for (stack, module), sublayer in SUBLAYERS.items():
        for name, g in parameters.items():
            match = re.fullmatch(rf"{stack}\.(\d+)\.{module}\.norm\.g", name)
            if match and g.size == 1:
                scales.append(Scale(sublayer, int(match[1]) + 1, float(to_host(g).item())))
    for stack in ("encoder", "decoder"):
        last = parameters.get(f"{stack}.norm.g")
        if last is not None and last.size == 1:
            depth = 1 + max(scale.depth for scale in scales if scale.sublayer.startswith(stack))
            scales.append(Scale(f"{stack}, last", depth, float(to_host(last).item())))
    if not scales:
        raise UserError(f"{run}: expected a Transformer with model.norm: scale, "
                        "got a model whose norms have no learned length")
    return sorted(scales, key=lambda scale: ("attention" not in scale.sublayer, scale.sublayer,
                                             scale.depth))


def draw_depths(runs: Mapping[str, Sequence[Scale]], path: Path) -> None:
    """Draw the g of each ScaleNorm against its depth, attention on the left and the others on the
    right (Nguyen, 2019, Figures 3.6 and 3.7).

    runs: name -> the scales of a run. Raises UserError without matplotlib.
    """
    figure = new_figure(path, 9.6, 6.8)
    from matplotlib.ticker import MaxNLocator

    halves: Any = figure.subfigures(1, 2)
    for place, title in enumerate(("attention", "feed-forward and last norms")):
        axes, number = halves[place].add_subplot(), 0
        for name, scales in runs.items():
            for sublayer in dict.fromkeys(scale.sublayer for scale in scales):
                if ("attention" in sublayer) == (place == 0):
                    points = [(scale.depth, scale.g) for scale in scales
                              if scale.sublayer == sublayer]
                    axes.plot(*zip(*points, strict=True), **style(number),
                              label=f"{name}: {sublayer}" if len(runs) > 1 else sublayer)
                    number += 1
        axes.set(xlabel="depth", ylabel="g", title=title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        add_legend(axes, below=halves[place])
    figure.suptitle("Learned g of ScaleNorm by depth", fontsize=11)
    save(figure, path)
