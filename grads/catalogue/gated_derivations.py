"""Cases of the derivations of Bahdanau et al. (2015): the gated unit, one step, and RNNsearch.

The derivations keep the paper's matrices apart (W, W_z, W_r, U ...); `lstm.gru` stacks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from grads.case import WORDS, Case, E, Entry, H, Inputs, Labels, Shape, V, draw, unused_rows
from grads.catalogue.derivations import Derivation, summed
from grads.catalogue.labels import label
from grads.derivations import nmt, rnnsearch
from grads.derivations.gru import (
    ContextUnit,
    Unit,
    gru,
    gru_context,
    gru_context_grad,
    gru_grad,
)

Rng = np.random.Generator
A, M = 5, 3  # units of the alignment model, and of the output's hidden layer
# Parameters of a source of one word: nothing to choose from, and what is reset is zero. The first
# word's prediction does not read s_1 where it reads "before".
IDLE = (
    "attention.", *(f"encoder.0.{end}.{name}" for end in ("forward", "backward")
                    for name in ("U", "W_r", "b_r")))
AXES = {"W": "unit/input", "U": "unit/unit", "C": "unit/source unit", "b": "unit"}
OTHER_AXES = {
    "W_e": "word/input", "W_s": "unit/unit", "W_a": "unit/unit", "U_a": "unit/source unit",
    "v_a": "unit", "W_o": "word/unit", "U_o": "unit/unit", "V_o": "unit/input",
    "C_o": "unit/source unit", "b_t": "unit", "x": "input/batch", "before": "unit/batch",
    "c": "source unit/batch", "after": "unit/batch",
}


def axes_of(inputs: Inputs) -> dict[str, Labels]:
    """Labels of matrices and columns, known by the last part of their names."""
    found = {}
    for name in inputs:
        last = name.rsplit(".", 1)[-1]
        axes = "word" if name == "output.b" else OTHER_AXES.get(last) or AXES[last[0]]
        found[name] = label(axes)
    return found


def unit_shapes(fields: tuple[str, ...], biases: bool) -> dict[str, tuple[int, ...]]:
    """Shapes of a unit's matrices by field; biases are vectors."""
    width = {"W": E, "U": H, "C": 2 * H}
    return {name: (H,) if name[0] == "b" else (H, width[name[0]])
            for name in fields if biases or name[0] != "b"}


# --- one step -----------------------------------------------------------------------------------


def step(rng: Rng, shape: Shape, context: bool, biases: bool) -> Case:
    """The state after one word; a derivation has one example."""
    kind: type[Any] = ContextUnit if context else Unit
    turn: Callable[..., Any] = gru_context if context else gru
    turn_grad: Callable[..., Any] = gru_context_grad if context else gru_grad
    inputs = {"x": draw(rng, E, 1), "before": draw(rng, H, 1)}
    inputs |= {"c": draw(rng, 2 * H, 1)} if context else {}
    inputs |= {name: draw(rng, *shape_of) for name, shape_of in
               unit_shapes(kind._fields, biases).items()}

    def unit(a: Inputs) -> Any:
        return kind(**{name: a[name][:, None] if name[0] == "b" else a[name]
                       for name in kind._fields if name in a})

    def read(a: Inputs) -> list[Any]:
        return [a[name] for name in ("x", "before", "c") if name in a]

    def run(a: Inputs) -> Any:
        after = turn(*read(a), unit(a))
        return {"after": after.astype(a["x"].dtype)}, a

    def pull(d: Mapping[str, Any], a: Inputs) -> dict[str, Any]:
        *parts, d_unit = turn_grad(d["after"], *read(a), unit(a))
        found = dict(zip(("x", "before", "c"), parts, strict=False)) | d_unit._asdict()
        return {name: found[name].reshape(a[name].shape).astype(a["x"].dtype) for name in a}

    return Case(inputs, run, pull, labels=axes_of({**inputs, "after": None}), facts={})


# --- the model ----------------------------------------------------------------------------------


def search_shapes(biases: bool) -> dict[str, tuple[int, ...]]:
    """Shapes of all parameters of RNNsearch by name."""
    shapes = {"encoder.W_e": (V, E), "decoder.W_e": (V, E), "bridge.W_s": (H, H),
              "attention.W_a": (A, H), "attention.U_a": (A, 2 * H), "attention.v_a": (A,),
              "output.W_o": (V, M), "output.U_o": (2 * M, H), "output.V_o": (2 * M, E),
              "output.C_o": (2 * M, 2 * H)}
    for prefix, fields in ((rnnsearch.FORWARD, Unit._fields), (rnnsearch.BACKWARD, Unit._fields),
                           (rnnsearch.DECODER, ContextUnit._fields)):
        shapes |= {f"{prefix}.{name}": shape for name, shape in unit_shapes(fields, biases).items()}
    if biases:
        shapes |= {"bridge.b": (H,), "output.b_t": (2 * M,), "output.b": (V,)}
    return shapes


def search(rng: Rng, shape: Shape, deep_state: str, biases: bool) -> Case:
    """RNNsearch, a pair after the other."""
    lengths = zip(shape.lengths, np.roll(shape.lengths, 1).tolist(), strict=True)
    sentences = [(rng.integers(*WORDS, size=m).tolist(), rng.integers(*WORDS, size=n - 1).tolist())
                 for m, n in lengths]
    parameters = {name: draw(rng, *one) for name, one in search_shapes(biases).items()}
    read = np.array([word for x, _ in sentences for word in x])
    fed = np.array([nmt.END, *(word for _, y in sentences for word in y)])
    zeros = {"encoder.W_e": unused_rows(read, E), "decoder.W_e": unused_rows(fed, E)}
    if shape.steps == 1:
        zeros |= {name: np.ones(value.shape, dtype=bool) for name, value in parameters.items()
                  if name.startswith((*IDLE, "decoder.0.") if deep_state == "before" else IDLE)}

    def backward(given: Any, x: Any, y: Any, trace: Any) -> tuple[Any, ...]:
        return (rnnsearch.backward(given, x, y, trace),)

    derivation = Derivation(partial(rnnsearch.forward, deep_state=deep_state), backward, (), 0)
    return summed(derivation, parameters, sentences, rng, zeros, axes_of(parameters),
                  deep_state=deep_state, biases=biases)


ENTRIES = [
    *(Entry(f"derivation, gated unit{', context' * context}{', bias' * biases}", (),
            partial(step, context=context, biases=biases), ("one sentence",),
            kind="derivation gru")
      for context in (False, True) for biases in (False, True)),
    *(Entry(f"derivation, RNNsearch, state {state}{', bias' * biases}", (),
            partial(search, deep_state=state, biases=biases),
            ("ragged", "one sentence", "smallest"), kind="derivation rnnsearch")
      for state, biases in (("before", False), ("before", True), ("now", True))),
]
