"""The checks that run on mutants: the checks of the catalogue, and checks of clipping.

Element-wise clipping does not give a gradient, so nothing can be differentiated. Models in which it
acts are compared with the references in PyTorch (tests/grads/verification/test_reference.py). A
mutant is detected because it changes these confirmed numbers. In a model, an LSTM's dc stays below
the limit to which every dh is clipped, unless its last state gets a gradient from elsewhere. That
case is tested with a single layer, which tests/lstm/test_recurrent.py compares with a literal loop.

Real numbers run the in-place form of a cell, and the complex step differentiates forward passes
only. Therefore a layer of each cell also runs on complex arrays. tests/lstm/cells/test_cells.py
compares its numbers with those of real arrays.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from grads.verification import catalogue, derivations
from grads.verification.mutation.record import Check
from lstm.cells import CELLS, clipped
from lstm.recurrent import make_padding, recurrent_backward, recurrent_forward

ACTING = 0.01  # a limit of clipping that many elements of dh and dc exceed


def checks() -> list[Check]:
    """A check for every entry of the catalogue: all architectures, at tiny and at real sizes."""
    entries = catalogue.entries()
    clipped = [entry._replace(options={**entry.options, "clip_elements": ACTING})
               for entry in entries
               if entry.options.get("clip_elements") and entry.shape == "ragged"]
    differentiated = [Check(entry.name, partial(catalogue.numbers, entry),
                            partial(catalogue.check, entry, diagnosis=0)) for entry in entries]
    return [*differentiated, *checks_of_cells(),
            *(Check(f"{entry.name}, clipping acts", partial(catalogue.numbers, entry))
              for entry in clipped)]


def checks_of_cells() -> list[Check]:
    """Checks of a layer of each cell, with real and with complex numbers."""
    return [Check(f"{unit} layer, {dtype}, {'clipping acts' if clips else 'last state alone'}",
                  partial(layer, unit, dtype, clips))
            for unit in CELLS for dtype in ("float64", "complex128") for clips in (True, False)]


def layer(unit: str, dtype: str, clips: bool) -> dict[str, np.ndarray]:
    """The results and gradients of a layer over T = 3 steps, B = 3, whose last state gets a large
    gradient.

    Arguments: clips, whether sentences have several lengths, every output has a gradient, and
    clipping acts on some elements of dh and dc.
    """
    rng, (T, B, E, H), cell = np.random.default_rng(1), (3, 3, 2, 4), CELLS[unit]
    cell = clipped(cell, 1.0) if clips else cell
    G = len(cell.gates) * H
    shapes = (T, B, E), (T, B, H), (G, E + H), (G + len(cell.biases) * H,)
    x, d_out, W, b = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    state, d_last = (tuple(rng.normal(size=(B, H)).astype(dtype) for _ in range(cell.states))
                     for _ in range(2))
    padding = make_padding(np.array([3, 1, 2]), T) if clips else None
    y, last, cache = recurrent_forward(cell, x, state, W, b, padding=padding)
    dx, d_state, dW, db = recurrent_backward(d_out if clips else None, d_last, cache)
    return {"y": y, "x": dx, "W": dW, "b": db,
            **{f"last state {k}": array for k, array in enumerate(last)},
            **{f"initial state {k}": d for k, d in enumerate(d_state)}}


def checks_of_derivations() -> list[Check]:
    """A check for every derivation."""
    return [Check(entry.name, partial(derivations.numbers, entry),
                  partial(derivations.check, entry))
            for entry in derivations.entries()]
