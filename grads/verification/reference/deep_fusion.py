"""RNNsearch with a language model's state in its deep output. The code is in `rnnsearch`."""

from grads.verification.reference.rnnsearch import loss

__all__ = ["loss"]
