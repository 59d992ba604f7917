"""One training step, ours and eager PyTorch's, and the check that both compute the same.

The two are compared in float64, where rounding cannot hide a mistake: loss and every gradient, each
tensor relative to its norm. Timing is in float32, where sums are in different orders and a score's
gradients, small differences of large numbers, keep few digits; there only the loss is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import backend
from benchmarks.implementations import Difference, furthest, host_copy
from benchmarks.parts import REST, Stopwatch
from nmt.data.batches import Batch
from nmt.training.optimizers import gradient_scale
from nmt.training.options import TrainOptions

STD = 0.1  # of the parameters that gradients are compared at
EXACT, CLOSE = 1e-9, 1e-5  # relative differences in float64, and of the summed loss in float32

Step = Callable[[], float]


def our_step(
    model: Any, parameters: dict[str, Any], batch: Batch, train: TrainOptions,
    watch: Stopwatch | None = None,
) -> Step:
    """One update as `nmt.training.trainer` makes it; returns the summed loss."""
    optimizer, rng = train.make_optimizer(), np.random.default_rng(train.seed)
    dtype, watch = next(iter(parameters.values())).dtype, watch or Stopwatch()

    def step() -> float:
        with watch.part(REST):
            noise = model.noise(batch, rng, dtype)
            loss, cache = model.loss(parameters, batch, noise)
            gradients = model.backward(cache)
            with watch.part("clip"):
                scale, _ = gradient_scale(gradients, len(batch.indices), train.max_norm)
            with watch.part("update"):
                optimizer.update(parameters, gradients, scale)
            return float(backend.to_host(loss))

    return step


def their_step(peer: Any, batch: Batch, train: TrainOptions) -> Step:
    """The same update in eager PyTorch at its fastest; dropout masks are drawn by PyTorch."""
    import torch

    weights, shapes = list(peer.parameters.values()), peer.noise_shapes(batch)
    made: dict[str, Callable[[], Any]] = {
        "sgd": lambda: torch.optim.SGD(weights, train.learning_rate, fused=True),
        "adam": lambda: torch.optim.Adam(weights, train.learning_rate, fused=True),
        "adadelta": lambda: torch.optim.Adadelta(weights, train.learning_rate, 0.95),
    }
    optimizer = made[train.optimizer]()

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = peer(batch, peer.draw_noise(shapes))
        (loss / len(batch.indices)).backward()
        if train.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(weights, train.max_norm)
        optimizer.step()
        return float(loss.item())

    return step


# --- equality first -------------------------------------------------------------------------------


def random_parameters(model: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Parameters in float64, normals of standard deviation `STD`.

    With freshly initialised parameters scores hardly differ, and rounding leaves few digits of
    their gradients.
    """
    return {name: rng.normal(scale=STD, size=weight.shape)
            for name, weight in model.weights().items()}


def loss_difference(
    model: Any, parameters: Mapping[str, Any], peer: Any, batch: Batch, noise: Any = None
) -> float:
    """The relative difference of the summed losses, with the same dropout masks."""
    loss = float(backend.to_host(model.loss(parameters, batch, noise)[0]))
    return float(abs(loss / float(peer(batch, on_host(noise)).item()) - 1))


def gradient_difference(
    model: Any, parameters: Mapping[str, Any], peer: Any, batch: Batch, noise: Any = None
) -> Difference:
    """The gradient that differs most, with the same dropout masks, on NumPy."""
    _, cache = model.loss(parameters, batch, noise)
    gradients = {name: host_copy(d) for name, d in model.backward(cache).items()}
    peer(batch, noise).backward()
    return furthest(gradients, peer.gradients())


def expect_equal(differences: Mapping[str, Difference], tolerances: Mapping[str, float]) -> None:
    """Raise AssertionError naming the kind of number and the tensor that differs most."""
    for kind, (size, name) in differences.items():
        if not size <= tolerances[kind]:
            raise AssertionError(f"{kind}: ours and PyTorch's differ by {size:.1e} in {name}")


def on_host(arrays: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """The same arrays where PyTorch can read them; none of None."""
    return {name: backend.to_host(array) for name, array in (arrays or {}).items()}
