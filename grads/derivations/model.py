"""The parts of a translator that the derivations of encoders and decoders read."""

from __future__ import annotations

from typing import NamedTuple

from grads.derivations.scores import Variant


class Model(NamedTuple):
    """The parts of a translator, by their names in the tables of parts."""

    unit: str  # of UNITS
    H: int  # hidden units of a layer
    encoder: str  # of ENCODERS
    start: str  # of STARTS
    decoder: str  # of DECODERS
    variant: Variant = Variant()  # of Luong's attention
    context: str = ""  # of CONTEXTS, where the decoder reads a context
    layer: str = ""  # of HIDDEN, there
    deep_state: str = ""  # "before" or "now": whether the output reads s_{i-1} or s_i (erratum 18)
    query: str = "state"  # "state" or "state-word": the query of the score (Nair and Shah, 7.2)
    factors: tuple[str, ...] = ()  # of the source's words, by name
    language: str = ""  # the unit of the language model whose state the output reads (deep fusion)
