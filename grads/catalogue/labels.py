"""Names for what a tensor's axes count and for its parts, so that a report can say where it is.

Axes are called "time", "batch", "position" (of a source word), "row" (real words, flattened),
"query", "unit", "source unit", "input", "gate", "state", "column" and "word"; parts are the gates
of a unit, the columns of a matrix that multiply one of several vectors side by side, and the two
directions of a bidirectional layer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from grads.case import Block, Labels
from lstm.gru import GATES as GRU_GATES
from lstm.lstm import GATES
from lstm.stack import UNITS

GATES_OF = {"lstm": GATES, "gru": GRU_GATES}

Parts = Mapping[str, int]  # name -> width, in order


def label(axes: str, **parts: Parts) -> Labels:
    """Labels of a tensor whose axes are the words of `axes`, "/" between them.

    Arguments: parts, by axis (spaces as underscores), the consecutive parts it falls into. Where
    two axes have parts, their products ("i, x") come after them.
    """
    names = [axis.strip() for axis in axes.split("/")] if axes else []
    nothing = (slice(None),) * len(names)
    found: list[list[Block]] = []
    for place, axis in enumerate(names):
        start, blocks = 0, []
        for name, width in parts.get(axis.replace(" ", "_"), {}).items():
            where = (*nothing[:place], slice(start, start + width), *nothing[place + 1 :])
            blocks.append(Block(name, where))
            start += width
        if blocks:
            found.append(blocks)
    both = found if len(found) == 2 else [[], []]
    products = [Block(f"{row.name}, {column.name}", (row.where[0], column.where[1]))
                for row in both[0] for column in both[1]]
    return Labels(tuple(names), (*(block for blocks in found for block in blocks), *products))


def gates(unit: str, width: int) -> Parts:
    """The blocks of pre-activations stacked in a unit's T; none where there is but one."""
    return dict.fromkeys(GATES_OF.get(unit, ()), width)


def halves(bidirectional: bool, width: int) -> Parts:
    """The two directions side by side in `width` units; none in one direction."""
    return dict.fromkeys(("forward", "backward"), width // 2) if bidirectional else {}


def parameter_labels(
    parameters: Mapping[str, np.ndarray], unit: str = "lstm", *, feeding: bool = False,
    bidirectional: bool = False,
) -> dict[str, Labels]:
    """Labels of the parameters among named arrays, known by the last part of their names.

    Arguments: unit of the stacks; feeding, whether `decoder.0.T` has columns for h~; bidirectional,
    whether the encoder reads from both ends.
    """
    found = {}
    for name, array in parameters.items():
        kind, shape = name.rsplit(".", 1)[-1], array.shape
        if kind == "T":
            H = shape[0] // UNITS[unit].blocks
            fed = {"h~": H} if feeding and name == "decoder.0.T" else {}
            columns = {"x": shape[1] - H - sum(fed.values()), **fed, "h": H}
            found[name] = label("gate/column", gate=gates(unit, H), column=columns)
        elif kind == "b":
            of_words = name in ("b", "output.b") and "W_hy" in "".join(parameters)
            H = shape[0] // UNITS[unit].blocks
            found[name] = label("word") if of_words else label("gate", gate=gates(unit, H))
        elif kind == "W":
            found[name] = _bridge(shape, unit, bidirectional)
        elif kind == "W_c":
            columns = {"c": shape[1] - shape[0], "h": shape[0]}
            found[name] = label("unit/column", column=columns)
        elif kind == "W_a":
            found[name] = label("unit/source unit", source_unit=halves(bidirectional, shape[1]))
        elif kind in ("v_a", "v_p"):
            found[name] = label("unit")
        elif kind in ("U_a", "W_p"):
            found[name] = label("unit/source unit" if kind == "U_a" else "unit/input")
        elif kind in ("W_e", "W_hy"):
            found[name] = label("word/input" if kind == "W_e" else "word/unit")
        elif kind.isdigit():
            found[name] = label("batch/unit")  # of a state
    return found


def _bridge(shape: tuple[int, ...], unit: str, bidirectional: bool) -> Labels:
    """Rows h then c; columns the same, each of both directions where there are two."""
    names = ("h", "c")[: UNITS[unit].states]
    ends = (" forward", " backward") if bidirectional else ("",)
    columns = [name + end for name in names for end in ends]
    return label("state/column", state=dict.fromkeys(names, shape[0] // len(names)),
                 column=dict.fromkeys(columns, shape[1] // len(columns)))
