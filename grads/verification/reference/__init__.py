"""Reference implementations of all architectures in PyTorch: for tests, and as peers in benchmarks.

They are written from the papers alone. They have forward passes only: PyTorch computes the
gradients. Nothing in the product imports this package. Letters: B batch, S source length, T target
or sequence length, E embedding, H hidden, He width of the source states, A width of a score, V
vocabulary.

Parameters have the names and shapes of a model's `weights()`. For a benchmark's peer, `fused.fused`
arranges recurrent layers for PyTorch's own kernels instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np
import torch

from nmt.models.contract import Tables
from nmt.models.registry import MODELS

Loss = Callable[..., torch.Tensor]
# by architecture: the module of its name
REFERENCES: dict[str, Loss] = {name: import_module(f"{__name__}.{name}").loss
                               for name in MODELS if find_spec(f"{__name__}.{name}")}


def reference_of(config: type) -> Loss | None:
    """The loss of the architecture with this kind of configuration; None if it has no reference."""
    return next((REFERENCES[name] for name, architecture in MODELS.items()
                 if config is architecture.config and name in REFERENCES), None)


def options_of(reference: Loss, tables: Tables) -> dict[str, Any]:
    """The properties of the tables that a reference takes, such as `reverse_source`."""
    known = signature(reference).parameters
    return {name: value for name, value in tables._asdict().items() if name in known}


def gradients(
    reference: Loss, config: Any, parameters: Mapping[str, np.ndarray], batch: Any,
    noise: Mapping[str, np.ndarray | None] | None = None, **options: Any,
) -> tuple[float, dict[str, np.ndarray]]:
    """The loss in nats, summed over target tokens, and its gradient by name, in float64.

    noise: dropout masks by site. options: as `options_of`.
    """
    leaves = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
              for name, value in parameters.items()}
    loss = reference(config, leaves, batch, noise, **options)
    slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True,
                                materialize_grads=True)
    return loss.item(), {name: d.numpy() for name, d in zip(leaves, slopes, strict=True)}
