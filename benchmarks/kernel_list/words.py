"""Kernels that touch every word of a vocabulary or every parameter: embeddings, the prediction
layer, updates and the gradient's norm.

An embedding, an update and a norm are bound by memory: their work is counted in the bytes that have
to be read and written once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from backend import to_device
from backend.workspace import Workspace
from benchmarks.case import Results, host_copy
from benchmarks.kernel import Arrays, Kernel, Passes, autograd, differentiated, leaves_of
from benchmarks.training import torch_optimizer
from lstm.embedding import embedding_backward, embedding_forward
from lstm.prediction import prediction_backward, prediction_forward
from nmt.training.optimizers import gradient_scale
from nmt.training.options import TrainOptions

FLOAT = 4  # bytes
# Optimizers, and how many numbers of each parameter they read and write.
RULES = {"SGD": (TrainOptions(optimizer="sgd", learning_rate=0.1), 3),
         "Adam": (TrainOptions(optimizer="adam", learning_rate=0.001), 7),
         "Adadelta": (TrainOptions(optimizer="adadelta", learning_rate=1.0), 7)}


def embedding(N: int, V: int, E: int) -> Kernel:
    """N look-ups in a table of V rows, and the summed rows of its gradient.

    The ids are random with Zipf's frequencies, so that many occur several times. PyTorch's gradient
    is a whole table. With sparse=True it has a row per look-up, and coalesce() sums the rows.
    """
    rng, frequency = np.random.default_rng(1), 1.0 / np.arange(1, V + 1)
    ids = rng.choice(V, size=N, p=frequency / frequency.sum())
    forward, distinct = 2.0 * N * E * FLOAT, len(np.unique(ids))

    def draw() -> dict[str, np.ndarray]:
        return {"ids": ids, **{name: rng.normal(size=(n, E)).astype(np.float32)
                               for name, n in (("W_e", V), ("dx", N))}}

    return Kernel("embedding", {"N": N, "V": V, "E": E}, draw,
                  {"forward": forward, "both": forward + (N + distinct) * E * FLOAT}, "B",
                  our_embedding, {"F.embedding": partial(torch_embedding, False),
                                  "F.embedding, sparse": partial(torch_embedding, True)})


def our_embedding(a: Arrays) -> Passes:
    """Gather, and sum by sorted ids, including the sorting."""
    def forward() -> tuple[Results, Any]:
        x, cache = embedding_forward(a["W_e"], a["ids"])
        return {"x": x}, cache

    return differentiated(forward, lambda cache: {"W_e": embedding_backward(a["dx"], cache)})


def torch_embedding(sparse: bool, a: Arrays) -> Passes:
    """functional.embedding."""
    from torch.nn import functional

    leaves = leaves_of(a, {"W_e": "W_e"})
    prepared = autograd(lambda: {"x": functional.embedding(a["ids"], leaves["W_e"], sparse=sparse)},
                        leaves, {"x": a["dx"]})
    if not sparse:
        return prepared

    def both() -> Results:
        gradients = dict(prepared.run["both"]())
        return gradients | {"W_e": gradients["W_e"].coalesce()}

    return prepared._replace(run={**prepared.run, "both": both})


def prediction(N: int, H: int, V: int) -> Kernel:
    """Logits, softmax, cross-entropy of N words, and their gradients.

    Our forward also computes the gradient of the logits.
    """
    rng, forward = np.random.default_rng(1), 2.0 * N * H * V

    def draw() -> dict[str, np.ndarray]:
        return {name: rng.uniform(-0.1, 0.1, shape).astype(np.float32) for name, shape in
                (("h", (N, H)), ("W_hy", (V, H)), ("b", (V,)))} | {"targets": rng.integers(0, V, N)}

    return Kernel("prediction layer", {"N": N, "H": H, "V": V}, draw,
                  {"forward": forward, "both": 3 * forward}, "FLOP", our_prediction,
                  {"eager PyTorch": torch_prediction})


def our_prediction(a: Arrays) -> Passes:
    """`lstm.prediction` with one workspace for all calls."""
    workspace, targets = Workspace(), to_device(a["targets"])

    def forward() -> tuple[Results, Any]:
        loss, cache = prediction_forward(a["h"], targets, a["W_hy"], a["b"], workspace)
        return {"loss": loss}, cache

    return differentiated(forward, lambda cache: dict(zip(
        ("dh", "W_hy", "b"), prediction_backward(cache, workspace=workspace), strict=True)))


def torch_prediction(a: Arrays) -> Passes:
    """A linear map and functional.cross_entropy."""
    from torch.nn import functional

    leaves = leaves_of(a, {"h": "dh", "W_hy": "W_hy", "b": "b"})
    return autograd(lambda: {"loss": functional.cross_entropy(
        functional.linear(*leaves.values()), a["targets"], reduction="sum")}, leaves)


def draw_weights(H: int, V: int) -> dict[str, np.ndarray]:
    """Parameters of two LSTM layers and an output layer, and a gradient of each."""
    rng = np.random.default_rng(1)
    shapes = {"0.W": (4 * H, 2 * H), "0.b": (4 * H,), "1.W": (4 * H, 2 * H), "1.b": (4 * H,),
              "W_hy": (V, H)}
    return {f"{kind}{name}": rng.normal(size=shape).astype(np.float32)
            for name, shape in shapes.items() for kind in ("", "d ")}


def numbers(H: int, V: int) -> float:
    """The number of these parameters."""
    return float(2 * (8 * H * H + 4 * H) + V * H)


def split(a: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and their gradients, of one set of names."""
    return ({name: value for name, value in a.items() if not name.startswith("d ")},
            {name[2:]: value for name, value in a.items() if name.startswith("d ")})


def update(name: str, H: int, V: int) -> Kernel:
    """An update of all parameters, in place, by the optimizer `name` in `RULES`. Every pass
    continues from the previous pass. The changes are compared, since an update is small relative to
    the parameters."""
    options, moved = RULES[name]

    def changes(after: Results) -> Results:
        start = draw_weights(H, V)
        return {key: host_copy(value) - start[key] for key, value in after.items()}

    def ours(a: Arrays) -> Passes:
        parameters, gradients = split(a)
        optimizer = options.make_optimizer()

        def run() -> Results:
            optimizer.update(parameters, gradients)
            return parameters

        return Passes({"update": run}, changes)

    def theirs(a: Arrays) -> Passes:
        parameters, gradients = split(a)
        for key, parameter in parameters.items():
            parameter.requires_grad_()
            parameter.grad = gradients[key]
        optimizer = torch_optimizer(options, list(parameters.values()))
        return Passes({"update": lambda: (optimizer.step(), parameters)[1]}, changes)

    return Kernel(f"update {name}", {"H": H, "V": V}, partial(draw_weights, H, V),
                  {"update": moved * numbers(H, V) * FLOAT}, "B", ours,
                  {"torch.optim": theirs})


def norm(H: int, V: int) -> Kernel:
    """||g|| over all parameters, as clipping needs it. PyTorch's float32 sum is about 1e-4 off."""

    def ours(a: Arrays) -> Passes:
        return Passes({"norm": lambda: {"norm": gradient_scale(split(a)[1], 1, 5.0)[1]}})

    def theirs(a: Arrays) -> Passes:
        from torch.nn.utils import get_total_norm

        return Passes({"norm": lambda: {"norm": get_total_norm(list(split(a)[1].values()))}})

    return Kernel("gradient norm", {"H": H, "V": V}, partial(draw_weights, H, V),
                  {"norm": numbers(H, V) * FLOAT}, "B", ours, {"get_total_norm": theirs},
                  tolerance=1e-3)
