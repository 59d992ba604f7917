"""RNNsearch with a language model's state in its deep output: `rnnsearch` reads it by its name."""

from grads.verification.reference.rnnsearch import loss

__all__ = ["loss"]
