"""What an encoder's units read of a word: its embedding, or those of the word and its factors.

x holds a token id for each position, or of a model with factors a tuple: the word's id and one of
each factor. W_e is the table `encoder.W_e`, or the tables of word and factors by name: "e" of
`encoder.W_e`, "case" of `encoder.W_case`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grads.derivations.calculus import Array
from grads.derivations.fusion import factored_embed, factored_embed_grad
from grads.derivations.rnn import embed, embed_grad
from grads.stepper.assembled.units import Part

INPUTS = {"word": Part(embed, embed_grad), "factors": Part(factored_embed, factored_embed_grad)}


def tables_of(parameters: Mapping[str, Array], factors: Sequence[str]) -> Any:
    """The table of the words, or by name it and those of the factors."""
    if not factors:
        return parameters["encoder.W_e"]
    return {name: parameters[f"encoder.W_{name}"] for name in ("e", *factors)}


def zero_tables(W_e: Any) -> Any:
    """Zeros in the form of what `tables_of` returns."""
    if isinstance(W_e, dict):
        return {name: np.zeros_like(W) for name, W in W_e.items()}
    return np.zeros_like(W_e)


def named_tables(dW_e: Any) -> dict[str, Array]:
    """The gradients under the parameters' names."""
    tables = dW_e if isinstance(dW_e, dict) else {"e": dW_e}
    return {f"encoder.W_{name}": dW for name, dW in tables.items()}
