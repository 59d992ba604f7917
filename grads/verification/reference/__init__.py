"""Reference implementations of all architectures in PyTorch: for tests, and as peers in benchmarks.

Written from the papers alone, forward only; the gradients are PyTorch's own. Nothing in the product
imports this package. Letters: B batch, S source length, T target or sequence length, E embedding,
H hidden, He width of the source states, A width of a score, V vocabulary.

Parameters have the names and shapes of a model's `weights()`; `fused.fused` lays recurrent layers
out for PyTorch's own kernels instead, for a benchmark's peer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from grads.verification.reference import (
    hybrid,
    language_model,
    luong,
    rnnsearch,
    transformer,
    two_sources,
)
from nmt.models.rnnsearch_config import RNNSearchConfig


def sampled(
    config: Any, parameters: Mapping[str, torch.Tensor], batch: Any,
    noise: Mapping[str, Any] | None = None, *, reverse_source: bool = False,
) -> torch.Tensor:
    """The loss of the model that is trained over a sampled vocabulary."""
    if isinstance(config, RNNSearchConfig):
        return rnnsearch.loss(config, parameters, batch, noise)
    return luong.loss(config, parameters, batch, noise, reverse_source=reverse_source)


REFERENCES: dict[str, Callable[..., torch.Tensor]] = {
    "luong": luong.loss,
    "factored": luong.loss,
    "lexical": luong.loss,
    "lexicon": luong.loss,
    "sampled": sampled,
    "hybrid": hybrid.loss,
    "rnnsearch": rnnsearch.loss,
    "deep_fusion": rnnsearch.loss,
    "language_model": language_model.loss,
    "transformer": transformer.loss,
    "two_sources": two_sources.loss,
}


def gradients(
    architecture: str, config: Any, parameters: Mapping[str, np.ndarray], batch: Any,
    noise: Mapping[str, np.ndarray | None] | None = None, **options: Any,
) -> tuple[float, dict[str, np.ndarray]]:
    """The loss in nats, summed over target tokens, and its gradient by name, in float64.

    architecture: a name in REFERENCES. noise: dropout masks by site. options: of that
    architecture's `loss`, such as `reverse_source`. Raises KeyError for another architecture.
    """
    leaves = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
              for name, value in parameters.items()}
    loss = REFERENCES[architecture](config, leaves, batch, noise, **options)
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True,
                                materialize_grads=True)
    return loss.item(), {name: d.numpy() for name, d in zip(leaves, found, strict=True)}
