"""Small translators of every kind, for tests that cost too much for all combinations.

The gradient catalogue checks the product of all choices.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from attention.scores import WINDOWS
from nmt.models.translator import CHOICES

BOTH_ENDS = {"bidirectional": True, "bridge": True}
NO_ATTENTION = {"attention": "none", "input_feeding": False}

LUONG: dict[str, dict[str, Any]] = {
    "general, feeding": {},
    "dot, feeding": {"score": "dot"},
    "general": {"input_feeding": False},
    "dot, 1 layer": {"input_feeding": False, "score": "dot", "layers": 1},
    "no attention": NO_ATTENTION,
    "both ends, feeding": BOTH_ENDS,
    "both ends": BOTH_ENDS | {"input_feeding": False},
    "both ends, no attention": BOTH_ENDS | NO_ATTENTION,
    "bridge, no bias": {"bridge": True, "biases": False},
    "output bias, 3 layers": {"output_bias": True, "layers": 3},
    "3 layers": {"layers": 3, "input_feeding": False},
    "dropout, feeding": {"dropout": 0.3},
    "dropout": {"dropout": 0.3, "input_feeding": False},
    "dropout, no attention": {"dropout": 0.3, **NO_ATTENTION},
    "no attention, feeding": {"attention": "none"},
    "no attention, feeding, gru, dropout": {"attention": "none", "unit": "gru", "dropout": 0.3},
    "the author's dropout, feeding": {"dropout": 0.3, "dropout_sites": "author"},
    "the author's dropout": {"dropout": 0.3, "dropout_sites": "author", "input_feeding": False},
    "the author's dropout, no attention, feeding": {
        "dropout": 0.3, "dropout_sites": "author", "attention": "none"},
    "rnn, feeding": {"unit": "rnn"},
    "gru, feeding": {"unit": "gru"},
    "rnn, both ends": {"unit": "rnn", **BOTH_ENDS, "input_feeding": False},
    "rnn, no attention": {"unit": "rnn", **NO_ATTENTION},
    "lexical": {"lexical": True, "output_norm": 2.0, "dropout": 0.3},
    "lexical, no feeding, local-p": {"lexical": True, "output_bias": True, "input_feeding": False,
                                     "attention": "local-p", "window": 1},
    "gru": {"unit": "gru", "input_feeding": False},
    "lstm-norm, feeding": {"unit": "lstm-norm"},
    "lstm-norm, both ends, residual": {
        "unit": "lstm-norm", **BOTH_ENDS, "input_feeding": False, "residual": True, "layers": 3},
    "residual, feeding, dropout": {"residual": True, "layers": 3, "dropout": 0.3},
    "residual, no attention, feeding": {"residual": True, "layers": 3, "attention": "none"},
    "gru, both ends, dropout": {"unit": "gru", **BOTH_ENDS, "input_feeding": False, "dropout": 0.3},
}
RNNSEARCH: dict[str, dict[str, Any]] = {
    "rnnsearch": {},
    "rnnsearch, state now": {"deep_state": "now", "output_bias": False},
    "rnnsearch, simplified": {"unit": "rnn", "layer": "tanh", "biases": False},
    "rnnencdec": {"context": "last"},
}


def attention_variants() -> dict[str, dict[str, Any]]:
    """Every score in every window that it goes with, with feeding and not, 1-2 layers."""
    variants = {}
    scores, windows = (*CHOICES, "concat, identity"), (*WINDOWS, "local-p, renormalised")
    for score, window, feeding, layers in product(scores, windows, (True, False), (1, 2)):
        options = {"score": score.split(",")[0], "attention": window.split(",")[0],
                   "input_feeding": feeding, "layers": layers, "window": 1, "location_length": 3}
        options |= {"concat_identity": True} if "identity" in score else {}
        options |= {"renormalise": True} if "renormalised" in window else {}
        plain = window == "global" and score in ("dot", "general")  # above
        if not plain and not (score == "location" and window != "global"):
            variants[f"{score}, {window}{', feeding' * feeding}, {layers} layers"] = options
    return variants


VARIANTS = attention_variants()
