"""Several tasks that share encoders and decoders (Luong, 2016, 6.1.1): the gradient is the sum.

Every update is of one task i; while the first task has alpha_1 N updates, task i has about alpha_i
N. Together they minimise J = sum over the updates of J_i, whose gradient is the sum of theirs: for
a weight that several tasks read, over all of them; for a task's own weight, over that task's
updates alone.

The example is the many-to-many setting of Figure 6.4, with one update of each task: translation,
and an autoencoder for each language, each an encoder-decoder of `grads.derivations.nmt`.

| task | reads | writes | its weights |
|---|---|---|---|
| `de-en` | German | English | `encoder`, `decoder`, `output` |
| `de` | German | German | the same `encoder`; `de/decoder`, `de/output` |
| `en` | English | English | `en/encoder`; the same `decoder`, `output` |

"When sharing an encoder or a decoder, we share both the recurrent connections and the
corresponding embeddings"; the layer that predicts a decoder's words goes with it (erratum 43).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    Example,
    Request,
    draw,
    numbers,
    sides_of,
    translation_shapes,
    vocabulary_of,
)
from grads.derivations.nmt import NMTTrace, backward, forward

TASKS = ("de-en", "de", "en")


class MixedTrace(NamedTuple):
    """The values of the forward pass, by update u from 1."""

    tasks: tuple[str, ...]  # i
    l: dict[int, Number]  # J_i of the update's task i, nats
    traces: dict[int, NMTTrace]  # of the update's own model


def mixed_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *,
    tasks: Sequence[str] = TASKS,
) -> tuple[Number, MixedTrace]:
    """J, the sum over updates of J_i in nats, i being the task of the update (6.1.1).

    Arguments: x and y, German and English token ids, without end markers; tasks, the task of each
    update.
    """
    l, traces = {}, {}
    for u, i in enumerate(tasks, start=1):
        x_i, y_i = pair_of(i, x, y)
        l[u], traces[u] = forward(of_task(parameters, i), x_i, y_i)  # J_i
    J = sum(l.values())                                          # (6.1.1 mixing)
    return J, MixedTrace(tuple(tasks), l, traces)


def mixed_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: MixedTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter: the sum of the gradients of the updates' J_i."""
    gradients = {name: np.zeros_like(W) for name, W in parameters.items()}
    for u in range(len(trace.tasks), 0, -1):
        i = trace.tasks[u - 1]
        x_i, y_i = pair_of(i, x, y)
        d_own, _, _ = backward(of_task(parameters, i), x_i, y_i, trace.traces[u])  # of J_i
        d_i = by_full_name(parameters, i, d_own)                 # no other weight has one
        gradients = {**gradients, **{name: gradients[name] + d for name, d in d_i.items()}}
    return gradients


# --- the data and the weights of a task ---------------------------------------------------------


def pair_of(
    i: str, x: Sequence[int], y: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """The source and the target of task i."""
    return {"de-en": (x, y), "de": (x, x), "en": (y, y)}[i]


def full_name(parameters: Mapping[str, Array], i: str, name: str) -> str:
    """The full name of task i's weight `name`: its own, or the shared one."""
    return f"{i}/{name}" if f"{i}/{name}" in parameters else name


def of_task(parameters: Mapping[str, Array], i: str) -> dict[str, Array]:
    """The weights of task i under the names of an encoder-decoder."""
    return {name: parameters[full_name(parameters, i, name)]
            for name in parameters if "/" not in name}


def by_full_name(
    parameters: Mapping[str, Array], i: str, d: Mapping[str, Array]
) -> dict[str, Array]:
    """Gradients of task i under the full names."""
    return {full_name(parameters, i, name): array for name, array in d.items()}


# --- the example --------------------------------------------------------------------------------


def multitask_example(request: Request) -> Example:
    """A sentence and its translation, and an autoencoder on each of the two."""
    sides = sides_of(request, PAIR)
    source, target = map(vocabulary_of, sides)
    x, y = map(numbers, sides, (source, target))
    V_s, V_t, sizes = len(source), len(target), request.sizes
    shapes = translation_shapes(V_s, V_t, sizes, attentional=False)
    german, english = (translation_shapes(V, V, sizes, attentional=False) for V in (V_s, V_t))
    shapes |= {f"de/{name}": shape for name, shape in german.items() if "encoder" not in name}
    shapes |= {f"en/{name}": shape for name, shape in english.items() if "encoder" in name}
    names = {"encoder.W_e": source, "decoder.W_e": target,
             "de/decoder.W_e": source, "en/encoder.W_e": target}
    return Example((draw(request.rng, shapes), x, y), {}, names)


PAIR = "wir lesen ||| we read it"  # source ||| target
HERE = "grads.derivations.multitask"
MISTAKES = {
    "last update only": Mistake(
        f"{HERE}.mixed_backward", "gradients[name] + d for", "d for",
        "a shared weight gets the gradient of one task, not the sum over all that read it."),
    "shared weights averaged": Mistake(
        f"{HERE}.mixed_backward", "gradients[name] + d for",
        "gradients[name] + (d if '/' in name else d / 2) for",
        "a shared weight gets the mean of two tasks' gradients, not their sum."),
    "mean over updates": Mistake(
        f"{HERE}.mixed_backward", "gradients[name] + d for",
        "gradients[name] + d / len(trace.tasks) for",
        "J is the sum over the updates, and so is its gradient; this is that of their mean."),
}
DECLARATIONS = (Declaration(
    "multitask", "Translation and two autoencoders that share, 6.1", mixed_forward, mixed_backward,
    multitask_example, PAIR, ("sentence", "target", "layers"), attentive=False,
    mistakes=MISTAKES),)
