"""The page of vanishing gradients (Luong, 2016, 2.2.2).

A single step of an RNN, an LSTM and a GRU is recorded on a tape. The page runs it as often as the
reader asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grads.derivations.gru import Unit, gru, gru_grad
from grads.derivations.lstm import lstm, lstm_grad
from grads.derivations.rnn import rnn, rnn_grad
from grads.stepper.explorer.flow import H, direction, inputs_weights, orthogonal
from grads.stepper.explorer.page import VANISHING
from grads.stepper.explorer.tape import Tape, Taped
from nmt.pages.page import write_page

NAME, PAGE = "vanishing", "vanishing.html"
LENGTH = 60  # words of the longest sentence
SEED = 1


def explore_vanishing(output: str | Path | None) -> Path:
    """Write the page and return its path, vanishing.html if None.

    Raises `UserError` for a path that cannot be written.
    """
    path = Path(PAGE if output is None else output)
    write_page(build_vanishing(), path, VANISHING)
    return path


def build_vanishing() -> dict[str, Any]:
    """The data of the page: each unit as one step forward and one back, the words (LENGTH, H), of
    which a sentence takes the first, and the gradient (H,) of norm 1 at the sentence's end."""
    rng = np.random.default_rng(SEED)
    words = rng.normal(size=(LENGTH, H))
    return {"title": "Vanishing gradients", "size": H, "words": words.tolist(),
            "direction": direction(rng)[:, 0].tolist(),
            "units": [rnn_unit(rng), lstm_unit(rng), gru_unit(rng)],
            "command": f"grads explore {NAME} -o {PAGE}"}


class Step:
    """A step of a unit being recorded: its inputs by name, each a column unless given."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.lines: dict[str, int] = {}
        self.values: dict[str, list[float]] = {}

    def input(self, name: str, value: Any = None) -> Taped:
        """An input; without a value a column of zeros."""
        value = np.zeros((H, 1)) if value is None else value
        leaf = self.tape.leaf(value)
        self.lines[name], self.values[name] = leaf.node, np.ravel(value).tolist()
        return leaf

    def json(self, name: str, states: Sequence[str], made: dict[str, Any],
             radius: Sequence[str], bias: tuple[str, str, int] | None) -> dict[str, Any]:
        """A unit for the page.

        Arguments: states, the names of the states that it passes on (`h` becomes the next
        `h_prev`); made, the arrays that it computes, by name; radius, the inputs whose last H
        columns are recurrent weights, of radius 1; bias, its name in words, the input that holds
        it, and its first row there.
        """
        return {
            "name": name, "states": list(states), "lines": self.tape.lines,
            "shapes": self.tape.shapes, "tables": self.tape.tables,
            "inputs": [{"line": line, "name": key, "values": self.values[key]}
                       for key, line in self.lines.items()],
            "at": self.lines, "made": {key: value.node for key, value in made.items()},
            "radius": list(radius),
            "bias": None if bias is None else dict(zip(("name", "input", "row"), bias,
                                                       strict=True))}


def rnn_unit(rng: np.random.Generator) -> dict[str, Any]:
    """h_t of (2.3), and line 8 of Algorithm 1."""
    step = Step()
    x, h_prev, dh = (step.input(name) for name in ("x", "h_prev", "dh"))
    T = step.input("T", np.hstack([inputs_weights(1, rng), orthogonal(rng)]))
    h = rnn(x, h_prev, T)
    dh_prev, *_ = rnn_grad(dh, x, h_prev, T)
    return step.json("RNN", "h", {"h": h, "dh_prev": dh_prev}, ["T"], None)


def lstm_unit(rng: np.random.Generator) -> dict[str, Any]:
    """h_t and c_t of (2.36) and (2.37), and Algorithm 2."""
    step = Step()
    x, h_prev, c_prev, dh, dc = (step.input(name) for name in ("x", "h_prev", "c_prev", "dh", "dc"))
    T = step.input("T", np.hstack([inputs_weights(4, rng),
                                   np.vstack([orthogonal(rng) for _ in range(4)])]))
    b = step.input("b", np.zeros((4 * H, 1)))
    h, c = lstm(h_prev, c_prev, x, T, b)
    dh_prev, dc_prev, *_ = lstm_grad(dh, dc, h_prev, c_prev, x, T, b)
    return step.json("LSTM", "hc", {"h": h, "c": c, "dh_prev": dh_prev, "dc_prev": dc_prev}, ["T"],
                     ("forget bias of the LSTM", "b", H))


def gru_unit(rng: np.random.Generator) -> dict[str, Any]:
    """h_i of the gated hidden unit (Bahdanau et al., A.2.1), and its backward."""
    step = Step()
    x, h_prev, dh = (step.input(name) for name in ("x", "h_prev", "dh"))
    W = np.split(inputs_weights(3, rng), 3)
    weights = {**dict(zip(("W", "W_z", "W_r"), W, strict=True)),
               **{name: orthogonal(rng) for name in ("U", "U_z", "U_r")},
               **{name: np.zeros((H, 1)) for name in ("b", "b_z", "b_r")}}
    unit = Unit(**{name: step.input(name, value) for name, value in weights.items()})
    h = gru(x, h_prev, unit)
    _, dh_prev, _ = gru_grad(dh, x, h_prev, unit)
    return step.json("GRU", "h", {"h": h, "dh_prev": dh_prev}, ["U", "U_z", "U_r"],
                     ("update bias of the GRU", "b_z", 0))
