"""The checks that run on mutants: the catalogue's, and those of clipping.

Element-wise clipping gives no gradient, so nothing can be differentiated. Where it acts, the models
are compared with the references in PyTorch (tests/grads/verification/test_reference.py), and a
mutant is detected by a change of the confirmed numbers. In a model an LSTM's dc stays below the
limit to which every dh is clipped, unless its last state gets a gradient from elsewhere: that is
tested with a single layer, which tests/lstm/test_recurrent.py compares with a literal loop.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from grads.verification import catalogue, derivations
from grads.verification.mutation.record import Check
from lstm.cells import CELLS
from lstm.recurrent import recurrent_backward, recurrent_forward

ACTING = 0.01  # a limit of clipping that many elements of dh and dc exceed


def checks() -> list[Check]:
    """One for every entry of the catalogue: all architectures, tiny and at real sizes."""
    entries = catalogue.entries()
    clipped = [entry._replace(options={**entry.options, "clip_elements": ACTING})
               for entry in entries
               if entry.options.get("clip_elements") and entry.shape == "ragged"]
    differentiated = [Check(entry.name, partial(catalogue.numbers, entry),
                            partial(catalogue.check, entry, diagnosis=0)) for entry in entries]
    return [*differentiated, Check("an LSTM layer, clipping of dc acts", clipped_layer),
            *(Check(f"{entry.name}, clipping acts", partial(catalogue.numbers, entry))
              for entry in clipped)]


def clipped_layer() -> dict[str, np.ndarray]:
    """Gradients of an LSTM layer over T = 3 steps, B = 2, whose last state gets large ones."""
    rng, (T, B, E, H) = np.random.default_rng(1), (3, 2, 3, 2)
    x, d_out = rng.normal(size=(T, B, E)), rng.normal(size=(T, B, H))
    state, d_last = ((rng.normal(size=(B, H)), rng.normal(size=(B, H))) for _ in range(2))
    W, b = rng.normal(size=(4 * H, E + H)), rng.normal(size=4 * H)
    _, _, cache = recurrent_forward(CELLS["lstm"], x, state, W, b)
    dx, (dh, dc), dW, db = recurrent_backward(d_out, d_last, cache, clip=0.3)
    return {"x": dx, "h": dh, "c": dc, "W": dW, "b": db}


def checks_of_derivations() -> list[Check]:
    """One for every derivation."""
    return [Check(one.name, partial(derivations.numbers, one), partial(derivations.check, one))
            for one in derivations.entries()]
