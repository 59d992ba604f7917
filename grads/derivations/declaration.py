"""The declaration of a derivation for the stepper, which names no derivation itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grads.derivations.errata import Mistake
from grads.derivations.examples import Example, Request

LOSS, OUTPUT, OUTPUT_TRACE = "loss, trace", "output", "output, trace"


@dataclass(frozen=True)
class Declaration:
    """A model's derivation, whose module holds it in a tuple DECLARATIONS."""

    name: str
    title: str
    forward: Callable[..., Any]  # its arguments are those of the example
    backward: Callable[..., Any]  # it takes the trace of the forward after them
    example: Callable[[Request], Example]
    sentence: str | None  # of a translation, where the user gives none: source ||| target
    settings: tuple[str, ...]  # of those that not all have: sentence, target, layers, score, window
    partners: Mapping[str, str]  # backward function -> the forward function it differentiates
    pairs: Mapping[str, str] = field(default_factory=dict)  # as `Pairing.pairs` of the stepper
    attentive: bool = True  # whether a decoder attends to the source
    returns: str = LOSS  # what the forward returns: a loss and its trace, or of a step its output
    recurrent: bool = True  # whether a gradient flows back through time
    apart: bool = False  # whether its lines are followed in this derivation only
    mistakes: Mapping[str, Mistake] = field(default_factory=dict)  # wrong backward passes, by name
