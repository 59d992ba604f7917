"""A language model of any unit and depth: Algorithms 1 and 2, in a stack.

Parameters: `W_e` (V, E), `rnn.{l}.W`, `rnn.{l}.b` as in `grads.derivations.units`, `output.W_hy`
(V, H), `output.b` (V,) optional.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from grads.derivations.calculus import Array, Number
from grads.derivations.encoders import columns, encode, encode_grad, tops
from grads.derivations.rnn import predictions, predictions_grad
from grads.derivations.units import stack_of, zero_states

STACK = "rnn"


class LanguageTrace(NamedTuple):
    """What the forward pass computed, by time step."""

    h: Any
    c: Any
    p: Any
    l: Any
    unit: str


def language_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *, unit: str
) -> tuple[Number, LanguageTrace]:
    """J = -log p(y) for one sentence, in nats: `encode`, then `predictions`."""
    h, c = encode(in_stack(parameters), x, side=STACK, unit=unit)
    J, p, l = predictions(parameters, y, tops(h))
    return J, LanguageTrace(h, c, p, l, unit)


def language_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: LanguageTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name."""
    h, c, p, _, unit = trace
    d_above, output = predictions_grad(parameters, y, p, tops(h))
    stack, _, _ = encode_grad(
        in_stack(parameters), x, h, c, columns(d_above),
        *zero_states(stack_of(parameters, STACK).W, unit), side=STACK, unit=unit)
    gradients = {**stack, **output, "W_e": stack[f"{STACK}.W_e"]}
    return {name: gradients[name] for name in parameters}


def in_stack(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """The parameters under the names of one side of a translator."""
    return {**parameters, f"{STACK}.W_e": parameters["W_e"]}
