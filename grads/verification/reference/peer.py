"""A model's reference in PyTorch as a peer, with gradients, and with parameters under our names.

The reference package is the model. PyTorch's own kernels run its LSTM and vanilla layers; without
input feeding, all steps at once. Batches come from the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grads.verification.reference import REFERENCES
from grads.verification.reference.fused import KERNELS, fused, unfused
from nmt.data.batches import Batch
from nmt.models.registry import name_of

Noise = Mapping[str, Any]  # dropout masks by site, as of `model.noise`


class Peer:
    """`model`, one of ours, with gradients by automatic differentiation."""

    def __init__(
        self, model: Any, parameters: Mapping[str, np.ndarray], device: str = "cpu"
    ) -> None:
        """Copy our parameters, by name, to the device. The peer computes in their dtype."""
        self.model, architecture = model, name_of(model.config)
        self.reference = REFERENCES[architecture]
        self.options = {}
        if architecture == "luong":
            self.options["reverse_source"] = model.variant.reverse
        clips = getattr(model.config, "clip_elements", None) is not None
        other_cell = clips or architecture in ("rnnsearch", "transformer")
        self.unit = None if other_cell else model.config.unit
        tensors = {name: torch.tensor(array) for name, array in parameters.items()}
        if self.unit in KERNELS:
            tensors = fused(self.unit, tensors)
        self.parameters = {name: tensor.to(device).requires_grad_()
                           for name, tensor in tensors.items()}

    def __call__(self, batch: Batch, noise: Noise | None = None) -> Tensor:
        """The loss, summed over tokens, in nats."""
        return self.loss(self.parameters, batch, noise)

    def loss(
        self, parameters: Mapping[str, Tensor], batch: Batch, noise: Noise | None = None
    ) -> Tensor:
        """The summed loss for other parameters with the names of `self.parameters`."""
        return self.reference(self.model.config, parameters, batch, noise, **self.options)

    def values(self) -> dict[str, np.ndarray]:
        """The parameters under our names and in our layout."""
        return self._read({name: p.detach() for name, p in self.parameters.items()})

    def gradients(self) -> dict[str, np.ndarray]:
        """The gradients in the same form; zero if the loss does not depend on a parameter."""
        return self._read({name: torch.zeros_like(p) if p.grad is None else p.grad
                           for name, p in self.parameters.items()})

    def _read(self, tensors: dict[str, Tensor]) -> dict[str, np.ndarray]:
        """Copies of the arrays on the host, in our layout."""
        ours = unfused(self.unit, tensors) if self.unit in KERNELS else tensors
        return {name: tensor.cpu().numpy().copy() for name, tensor in ours.items()}

    # --- dropout --------------------------------------------------------------------------------

    def noise_shapes(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """The shape of each mask that a loss over this batch takes."""
        noise = self.model.noise(batch, np.random.default_rng(0), "float32") or {}
        return {site: mask.shape for site, mask in noise.items()}

    def draw_noise(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
        """Masks of these shapes as drawn by `nn.Dropout`, on the parameters' device."""
        keep = 1 - getattr(self.model.config, "dropout", 0.0)
        like = next(iter(self.parameters.values()))
        return {site: like.new_empty(shape).bernoulli_(keep).div_(keep)
                for site, shape in shapes.items()}
