"""A small model for tests, registered beside the others, with one of several flaws."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from backend import array_module
from grads.verification.catalogue import entries
from lstm.parameters import Weight, axis, zeros
from nmt.models.contract import Architecture
from nmt.models.registry import MODELS
from nmt.models.variants import Variants


@dataclass(frozen=True)
class Config:
    size: int = 3
    flaw: str = ""


class Toy:
    """loss = the sum of tanh(W_e[y] . v) over the words y that the target's real steps read."""

    def __init__(self, config, tables):
        self.config, self.V = config, tables.target

    def weights(self):
        size = axis("input", self.config.size)
        return {"W_e": Weight((axis("word", self.V), size), zeros), "v": Weight((size,), zeros)}

    def noise(self, batch, rng, dtype):
        return None

    def loss(self, parameters, batch, noise=None):
        xp, ids = array_module(*parameters.values()), batch.target_in
        real = np.arange(len(ids))[:, None] < batch.target.lengths
        ids = ids[real | (self.config.flaw == "reads padding")]
        x, v = xp.take(parameters["W_e"], xp.asarray(ids), axis=0), parameters["v"]
        y = xp.tanh(x @ v) * (self.config.flaw != "constant")
        loss = y.sum() * (np.float64(1.0) if self.config.flaw == "widens" else 1.0)
        return loss, (x, v, y, ids, parameters["W_e"])

    def backward(self, cache):
        x, v, y, ids, W_e = cache
        xp, flaw = array_module(x), self.config.flaw
        d = (1.0 - y * y) * (flaw != "constant")
        dW_e = xp.zeros(W_e.shape, dtype=W_e.dtype)
        for n in range(len(ids)):
            dW_e[int(ids[n])] += d[n] * v
        dW_e[0] += 1e-20 * (flaw == "unused row")
        if flaw == "inaccurate" and W_e.dtype == np.float32:
            dW_e *= 1.01
        dv = (d[:, None] * x).sum(axis=0)
        return {"W_e": dW_e, "v": dv * 1.001 if flaw == "wrong" else dv}


@contextmanager
def registered(flaw=""):
    """The registry with the toy in it."""
    variants = Variants({"size": (3, 4), "flaw": (flaw,)})
    toy = Architecture(Config, Toy, lambda: {"tiny": variants, "real": variants})
    with patch.dict(MODELS, {"toy": toy}):
        yield


def toys(*tiers):
    """The toy's entries."""
    return [entry for entry in entries(*tiers) if entry.architecture == "toy"]
