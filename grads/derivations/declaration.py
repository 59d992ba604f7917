"""The declaration of a derivation for the stepper, which names no derivation itself.

A module of this package may hold

| name | |
|---|---|
| `DECLARATIONS` | a tuple of its derivations |
| `PAIRS`, `SHARES` | for gradients whose names do not say what they differentiate: see `Pairing` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from grads.derivations.errata import Mistake
from grads.derivations.examples import Example, Request


class Returns(NamedTuple):
    """The form of what a forward returns: from its result and its example, the loss and the
    arguments of the backward. The loss of a single step is sum(upstream gradient * output)."""

    loss: Callable[[Example, Any], Any]
    given: Callable[[Example, Any], tuple[Any, ...]]


LOSS = Returns(  # a loss and its trace
    lambda example, result: result[0],
    lambda example, result: (*example.arguments, result[1]))
OUTPUT = Returns(  # the output of a step
    lambda example, result: (example.upstream * result).sum(),
    lambda example, result: (example.upstream, *example.arguments))
OUTPUT_TRACE = Returns(  # the output of a step, and its trace
    lambda example, result: (example.upstream * result[0]).sum(),
    lambda example, result: (example.upstream, *example.arguments, result[1]))
OUTPUT_FIRST = Returns(  # the output and further results; the backward takes the variant first
    lambda example, result: (example.upstream * result[0]).sum(),
    lambda example, result: (example.arguments[0], example.upstream, *example.arguments[1:]))


@dataclass(frozen=True)
class Declaration:
    """A model's derivation, whose module holds it in a tuple DECLARATIONS."""

    name: str
    title: str
    forward: Callable[..., Any]  # its arguments are those of the example
    backward: Callable[..., Any]  # as `returns` says
    example: Callable[[Request], Example]
    sentence: str | None = None  # the default, of a translation: source ||| target
    settings: tuple[str, ...] = ()  # optional ones that it uses: sentence, target, layers, ...
    partners: Mapping[str, str] = field(default_factory=dict)  # backward function -> its forward's,
    # where its name is not that of the forward and "_grad"
    attentive: bool = True  # whether a decoder attends to the source
    returns: Returns = LOSS
    recurrent: bool = True  # whether a gradient flows back through time
    gates: tuple[str, ...] = ()  # row blocks of its recurrent weights, for the page's knobs
    apart: bool = False  # whether its lines are followed in this derivation only
    mistakes: Mapping[str, Mistake] = field(default_factory=dict)  # wrong backward passes, by name
