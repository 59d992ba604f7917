"""Attention maps: which source words each target word attended to (Bahdanau et al., Figure 3).

Source words are on x, target words on y. A map is drawn as shades of characters in the terminal, or
as a picture by matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.cells import cell_len

from nmt.evaluation.pictures import can_draw, save

SHADES = " .:-=+*#%@"  # weights 0 to 1 in tenths, readable without colours and in a pipe
NARROW = 3  # columns for each source word


def in_terminal(source: Sequence[str], target: Sequence[str], alignment: np.ndarray) -> str:
    """The map as text.

    source, target: words. alignment: at least len(target) rows, len(source) columns; rows sum to
    one. Each column is a source word; the numbers below the map refer to the list of words at its
    end.
    """
    margin = max((cell_len(word) for word in target), default=0)
    lines = []
    for word, row in zip(target, alignment, strict=False):
        shades = "".join(_shade(weight) * 2 + " " for weight in row)
        lines.append(f"{' ' * (margin - cell_len(word))}{word} |{shades}")
    numbers = "".join(f"{number:<{NARROW}}" for number in range(1, len(source) + 1))
    lines.append(f"{' ' * margin} +{'-' * NARROW * len(source)}")
    lines.append(f"{' ' * margin}  {numbers}")
    names = "  ".join(f"{number} {word}" for number, word in enumerate(source, 1))
    return "\n".join([*lines, f"{' ' * margin}  {names}"])


def save_map(
    source: Sequence[str], target: Sequence[str], alignment: np.ndarray, path: Path
) -> bool:
    """Draw the map into a file, black on white, in the format of the file's name: PNG, SVG or PDF.

    Returns False, and makes no file, if matplotlib is not installed.
    """
    if not can_draw():
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.5 + 0.45 * len(source), 1.2 + 0.4 * len(target)))
    axes = figure.add_subplot()
    image = axes.imshow(alignment[: len(target)], cmap="gray_r", vmin=0.0, vmax=1.0)
    plain = {"parse_math": False}  # dollar signs are no mathematics
    slanted: dict[str, Any] = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(source)), source, **slanted, **plain)
    axes.set_yticks(range(len(target)), target, **plain)
    axes.xaxis.tick_top()
    axes.set(xlabel="source", ylabel="target")
    axes.set_title("What each target word attends to", fontsize=11)
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8)
    save(figure, path, bbox_inches="tight")
    return True


def _shade(weight: float) -> str:
    """The character for a weight in [0, 1]."""
    return SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]
