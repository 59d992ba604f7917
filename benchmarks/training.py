"""A training step without a corpus, ours and eager PyTorch's, and their comparison.

The two are compared in float64, where rounding cannot hide a mistake: the loss, every gradient
relative to the tensor's norm, and with SGD an update. Timing is in float32. There sums are in
different orders, and a score's gradients, small differences of large numbers, keep few digits.
Therefore only the loss is compared in float32.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import backend
from backend.host import blas_threads
from benchmarks.case import Difference, expect_equal, furthest, host_copy
from benchmarks.devices import CPU, Device
from benchmarks.parts import REST, Stopwatch
from nmt.data.batches import Batch, make_batch
from nmt.models.contract import Tables
from nmt.models.registry import make_model
from nmt.training.optimizers import gradient_scale
from nmt.training.options import TrainOptions

STD = 0.1  # of the parameters that gradients are compared at
EXACT, CLOSE = 1e-9, 1e-5  # relative differences in float64, and of the summed loss in float32
ROUGH = 1e-3  # of the loss with products of 10 bits, TF32

Step = Callable[[], float]


class Workload(NamedTuple):
    """A model, its training options, and the sizes that a corpus would determine."""

    model: Any  # its configuration
    train: TrainOptions
    reverse_source: bool
    source_size: int  # words of the vocabulary
    target_size: int
    source: int  # words of every sentence
    target: int  # with its end marker

    @property
    def tables(self) -> Tables:
        """The sizes for the model."""
        return Tables((self.source_size,), self.target_size, self.reverse_source)

    def of_few_words(self) -> Workload:
        """The workload with small vocabularies, for comparing gradients."""
        return self._replace(source_size=50, target_size=51)


def random_batch(work: Workload, rng: np.random.Generator, sentences: int | None = None) -> Batch:
    """Random token ids. All sentences have the workload's lengths."""
    B = sentences or work.train.batch_size
    source = rng.integers(2, work.source_size, (B, work.source)).tolist()
    target = rng.integers(2, work.target_size, (B, work.target - 1)).tolist()
    return make_batch(list(zip(source, target, strict=True)), range(B), work.reverse_source)


def our_step(
    model: Any, parameters: dict[str, Any], batch: Batch, train: TrainOptions,
    watch: Stopwatch | None = None, seen: Callable[[str, Any], None] = lambda name, value: None,
) -> Step:
    """An update as `nmt.training.trainer` makes it. Returns the summed loss.

    Arguments: watch, which times the parts of the step; seen, which is called with "saved" and the
    cache of the forward pass, then with "gradients" and the gradients.
    """
    optimizer, rng = train.make_optimizer(), np.random.default_rng(train.seed)
    dtype, watch = next(iter(parameters.values())).dtype, watch or Stopwatch()

    def step() -> float:
        with watch.timed(REST):
            noise = model.noise(batch, rng, dtype)
            loss, cache = model.loss(parameters, batch, noise)
            seen("saved", cache)
            gradients = model.backward(cache)
            seen("gradients", gradients)
            with watch.timed("clip"):
                scale, _ = gradient_scale(gradients, len(batch.indices), train.max_norm)
            with watch.timed("update"):
                optimizer.update(parameters, gradients, scale)
            return float(backend.to_host(loss))

    return step


def their_step(peer: Any, batch: Batch, train: TrainOptions) -> Step:
    """The same update in eager PyTorch at its fastest. PyTorch draws the dropout masks."""
    import torch

    weights, shapes = list(peer.parameters.values()), peer.noise_shapes(batch)
    clips = getattr(peer.model.config, "clip_elements", None) is not None
    optimizer = torch_optimizer(train, weights)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = peer(batch, peer.draw_noise(shapes))
        if clips:  # elements of the summed loss's gradients, as ours: those of a mean are smaller
            loss.backward()
            torch._foreach_div_([weight.grad for weight in weights], len(batch.indices))
        else:
            (loss / len(batch.indices)).backward()
        if train.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(weights, train.max_norm)
        optimizer.step()
        return float(loss.item())

    return step


def torch_optimizer(train: TrainOptions, weights: list[Any]) -> Any:
    """PyTorch's optimizer for these options, which has the name of ours. Its AdamW without weight
    decay is Adam."""
    from torch import optim

    optimizer = train.make_optimizer()
    kind, ours = type(optimizer).__name__, vars(optimizer)
    given = {theirs: ours[name] for name, theirs in (("epsilon", "eps"), ("rho", "rho"))
             if name in ours}
    if "beta1" in ours:
        given["betas"] = (ours["beta1"], ours["beta2"])
    made: Any = getattr(optim, {"Adam": "AdamW"}.get(kind, kind))
    if "fused" in inspect.signature(made).parameters:
        given["fused"] = True
    return made(weights, train.learning_rate, weight_decay=train.weight_decay, **given)


def peer_on(device: Device, model: Any, parameters: Mapping[str, Any]) -> Any:
    """The same model in PyTorch, on the same device; None without PyTorch."""
    if device.torch is None:
        return None
    import torch

    from grads.verification.reference.peer import Peer

    if device.torch == "cpu":
        torch.set_num_threads(blas_threads())
    return Peer(model, on_host(parameters), device.torch)


def compare(work: Workload, seed: int = 7, sentences: int | None = 2) -> dict[str, float]:
    """Relative differences of loss, gradients and an update by SGD in float64, on NumPy.

    An empty mapping without PyTorch. An update is left out where PyTorch would draw other dropout
    masks. Raises AssertionError, naming the tensor that differs most, if they are too large.
    """
    if CPU.torch is None:
        return {}
    with backend.using("numpy"):
        rng = np.random.default_rng(seed)
        model: Any = make_model(work.model, work.tables)
        parameters, batch = random_parameters(model, rng), random_batch(work, rng, sentences)
        noise, peer = model.noise(batch, rng, "float64"), peer_on(CPU, model, parameters)
        differences = {"loss": loss_difference(model, parameters, batch, noise, peer),
                 "gradients": gradient_difference(model, parameters, peer, batch, noise)}
        if work.train.optimizer == "sgd" and not peer.noise_shapes(batch):
            copies = {name: array.copy() for name, array in parameters.items()}
            our_step(model, copies, batch, work.train)()
            their_step(peer, batch, work.train)()
            differences["updates"] = furthest(*({name: after[name] - array
                                           for name, array in parameters.items()}
                                          for after in (copies, peer.values())))
    # PyTorch adds 1e-6 to the norm that it clips by, and its updates are smaller by that.
    less = 1e-6 / work.train.max_norm if work.train.max_norm else 0.0
    return expect_equal("ours and PyTorch's", differences, {
        "loss": EXACT, "gradients": EXACT, "updates": EXACT + less})


def random_parameters(model: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Parameters in float64, normals of standard deviation `STD`. With freshly initialised
    parameters scores hardly differ, and rounding leaves few digits of their gradients."""
    return {name: rng.normal(scale=STD, size=weight.shape)
            for name, weight in model.weights().items()}


def loss_difference(
    model: Any, parameters: Mapping[str, Any], batch: Batch, noise: Any, peer: Any
) -> Difference:
    """The relative difference of the summed loss from the peer's, with the same dropout masks; from
    NumPy's without a peer."""
    loss = float(backend.to_host(model.loss(parameters, batch, noise)[0]))
    same_noise = on_host(noise)
    if peer is not None:
        theirs = float(peer(batch, same_noise).item())
    else:
        with backend.using("numpy"):
            theirs = float(model.loss(on_host(parameters), batch, same_noise or None)[0])
    return Difference(abs(loss / theirs - 1), "the loss")


def gradient_difference(
    model: Any, parameters: Mapping[str, Any], peer: Any, batch: Batch, noise: Any = None
) -> Difference:
    """The gradient that differs most, with the same dropout masks, on NumPy."""
    _, cache = model.loss(parameters, batch, noise)
    gradients = {name: host_copy(d) for name, d in model.backward(cache).items()}
    peer(batch, noise).backward()
    return furthest(gradients, peer.gradients())


def on_host(arrays: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """The same arrays on the host, where PyTorch can read them; nothing for None."""
    return {name: backend.to_host(array) for name, array in (arrays or {}).items()}
