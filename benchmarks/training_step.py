"""One training step, ours and eager PyTorch's, and the proof that both compute the same.

The two are compared in float64, where rounding cannot hide a mistake: loss, every gradient and
every update of one step, each tensor by its own norm. float32 is for the timing: there both
implementations add in their own order, and a score's gradients, small differences of large numbers,
keep few digits on either. Its loss is compared too, with what is about to be timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.timing import environment
from grads.check.case import dense
from nmt.data.batches import Batch, make_batch
from nmt.models import registry
from nmt.models.contract import Tables
from nmt.models.rnnsearch import RNNSearchConfig
from nmt.models.translator import ModelConfig
from nmt.training.optimizers import SGD, gradient_scale

LEARNING_RATE = 0.1
MAX_NORM = 5.0  # of the gradient divided by the batch size (thesis, 4.3.1)
STD = 0.1  # of the parameters they are compared at
# ||a - b|| / ||b|| in float64, where rounding gave 1e-13 and less. PyTorch adds 1e-6 to the norm
# that it clips by, and its updates are smaller by that.
TOLERANCES = {"loss": 1e-9, "gradients": 1e-9, "updates": 1e-9 + 1e-6 / MAX_NORM}
LOSS_TOLERANCE = 1e-5  # of the summed loss in float32

Config = ModelConfig | RNNSearchConfig
Step = Callable[[], float]


class Sizes(NamedTuple):
    """A batch: every sentence has `source` words, or `target` with its end marker."""

    batch: int
    source: int
    target: int
    vocabulary: int


def make_model(config: Config, vocabulary: int) -> Any:
    """The model of a configuration, for sources that are reversed."""
    return registry.make_model(config, Tables((vocabulary,), vocabulary, reverse_source=True))


def random_batch(sizes: Sizes, seed: int) -> Batch:
    """Random words, in sentences of one length."""
    rng = np.random.default_rng(seed)
    B, V = sizes.batch, sizes.vocabulary
    source = rng.integers(2, V, (B, sizes.source)).tolist()
    target = rng.integers(2, V, (B, sizes.target - 1)).tolist()
    return make_batch(list(zip(source, target, strict=True)), range(B), reverse_source=True)


def make_implementations(config: Config, sizes: Sizes, seed: int) -> dict[str, Step]:
    """Both steps in float32, after one loss was found to be the other's (AssertionError)."""
    import torch

    from benchmarks.peer import Peer

    torch.set_num_threads(environment()["cores"])
    model, batch = make_model(config, sizes.vocabulary), random_batch(sizes, seed)
    parameters = model.initial_parameters(np.random.default_rng(seed))
    peer = Peer(model, parameters)
    ours, theirs = float(model.loss(parameters, batch)[0]), float(peer(batch).item())
    if not abs(ours - theirs) <= LOSS_TOLERANCE * abs(theirs):
        raise AssertionError(f"loss in float32: ours is {ours}, PyTorch's {theirs}")
    return {"ours": our_step(model, parameters, batch), "pytorch": their_step(peer, batch)}


def our_step(model: Any, parameters: dict[str, Any], batch: Batch) -> Step:
    """One step of ours; returns the summed loss, fetched as a trainer would."""
    optimizer = SGD(LEARNING_RATE)

    def step() -> float:
        loss, cache = model.loss(parameters, batch)
        gradients = model.backward(cache)
        scale, _ = gradient_scale(gradients, len(batch.indices), MAX_NORM)
        optimizer.update(parameters, gradients, scale)
        return float(loss)

    return step


def their_step(peer: Any, batch: Batch) -> Step:
    """The same step in PyTorch, in its fastest eager form."""
    import torch

    weights = list(peer.parameters.values())
    optimizer = torch.optim.SGD(weights, LEARNING_RATE, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = peer(batch)
        (loss / len(batch.indices)).backward()
        torch.nn.utils.clip_grad_norm_(weights, MAX_NORM)
        optimizer.step()
        return loss.item()

    return step


# --- equality -------------------------------------------------------------------------------------


def compare(config: Config, sizes: Sizes, seed: int) -> dict[str, float]:
    """Assert in float64 that loss, gradients and one update agree; by how much they differ.

    Raises AssertionError that names the tensor which is furthest off.
    """
    from benchmarks.peer import Peer

    model, batch = make_model(config, sizes.vocabulary), random_batch(sizes, seed)
    parameters = random_parameters(model, np.random.default_rng(seed))
    peer = Peer(model, parameters)
    loss, cache = model.loss(parameters, batch)
    gradients = model.backward(cache)
    peer_loss = peer(batch)
    peer_loss.backward()
    found = {"loss": (abs(float(loss) - peer_loss.item()) / abs(peer_loss.item()), "the loss"),
             "gradients": furthest(gradients, peer.gradients())}
    copies = {name: array.copy() for name, array in parameters.items()}
    our_step(model, copies, batch)()
    their_step(peer, batch)()
    moved = {name: copies[name] - array for name, array in parameters.items()}
    after = peer.values()
    found["updates"] = furthest(moved, {name: after[name] - parameters[name] for name in after})
    for kind, (difference, name) in found.items():
        if not difference <= TOLERANCES[kind]:
            raise AssertionError(f"{kind}: ours and PyTorch's differ by {difference:.1e} in {name}")
    return {kind: difference for kind, (difference, _) in found.items()}


def random_parameters(model: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Parameters in float64, normals: wide enough for scores that differ.

    A fresh model's hardly do. Then a score's gradients are what large numbers that cancel leave
    over, and of their digits rounding takes more than the tolerance.
    """
    return {name: rng.normal(scale=STD, size=weight.shape)
            for name, weight in model.weights().items()}


def furthest(
    ours: Mapping[str, Any], theirs: Mapping[str, np.ndarray]
) -> tuple[float, str]:
    """The largest relative distance ||a - b|| / ||b|| of a parameter's tensors, and its name."""
    if ours.keys() != theirs.keys():
        raise AssertionError(f"of one implementation only: {sorted(ours.keys() ^ theirs.keys())}")
    distances = []
    for name, b in theirs.items():
        a = dense(ours[name])
        away, size = float(np.linalg.norm(a - b)), float(np.linalg.norm(b))
        distances.append((away / size if size else away, name))
    return max(distances)
