"""Kernels that touch every word of a vocabulary or a table: embeddings, softmax and cross-entropy.

An embedding and a cross-entropy are bound by memory: their work is counted in the bytes that have
to be read and written once. The prediction layer adds two matrix products to the latter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backend import array_module, on_host, to_device
from backend.rows import row_index
from backend.workspace import Workspace
from benchmarks.implementations import Arrays, Kernel, Passes, Results
from lstm.embedding import embedding_backward, embedding_forward
from lstm.prediction import CHUNK, cross_entropy, prediction_backward, prediction_forward

FLOAT = 4  # bytes


def embedding(N: int, V: int, E: int) -> Kernel:
    """N look-ups in a table of V rows, and the summed rows of its gradient.

    The ids are random with Zipf's frequencies, so that many occur several times. PyTorch's gradient
    is a whole table, or with sparse=True one row a look-up, which coalesce() sums.
    """
    rng = np.random.default_rng(1)
    frequency = 1.0 / np.arange(1, V + 1)
    ids = rng.choice(V, size=N, p=frequency / frequency.sum())
    inputs: dict[str, np.ndarray] = {
        "ids": ids, "W_e": rng.normal(size=(V, E)).astype(np.float32),
        "dx": rng.normal(size=(N, E)).astype(np.float32),
    }
    forward, distinct = 2.0 * N * E * FLOAT, len(np.unique(ids))
    work = {"forward": forward, "both": forward + (N + distinct) * E * FLOAT}
    return Kernel("embedding", {"N": N, "V": V, "E": E}, inputs, work, "B", our_embedding, {
        "F.embedding": lambda a: torch_embedding(a, sparse=False),
        "F.embedding, sparse": lambda a: torch_embedding(a, sparse=True)})


def our_embedding(a: Arrays) -> Passes:
    """Gather, and sum by sorted ids, the sorting included."""
    ids, W_e = a["ids"], a["W_e"]

    def forward() -> Results:
        return {"x": embedding_forward(W_e, row_index(ids))[0]}

    def both() -> Results:
        x, cache = embedding_forward(W_e, row_index(ids))
        return {"x": x, "W_e": embedding_backward(a["dx"], cache)}

    return Passes({"forward": forward, "both": both})


def torch_embedding(a: Arrays, sparse: bool) -> Passes:
    """functional.embedding."""
    import torch
    from torch.nn import functional

    W_e = a["W_e"].requires_grad_()

    def forward() -> Results:
        with torch.no_grad():
            return {"x": functional.embedding(a["ids"], W_e)}

    def both() -> Results:
        x = functional.embedding(a["ids"], W_e, sparse=sparse)
        (d,) = torch.autograd.grad(x, [W_e], a["dx"])
        return {"x": x, "W_e": Summed(d.coalesce()) if sparse else d}

    return Passes({"forward": forward, "both": both})


class Summed:
    """A sparse gradient, made dense when it is compared and not while it is timed."""

    def __init__(self, gradient: Any) -> None:
        self.gradient = gradient

    def detach(self) -> Any:
        """The gradient as a whole table."""
        return self.gradient.to_dense()


def softmax_cross_entropy(N: int, V: int) -> Kernel:
    """Loss and gradient of N rows of logits, without the products around them.

    Ours is in place, so the logits are copied first; it always computes the gradient.
    """
    rng = np.random.default_rng(1)
    inputs: dict[str, np.ndarray] = {
        "s": rng.normal(size=(N, V)).astype(np.float32), "targets": rng.integers(0, V, N),
    }
    return Kernel("softmax cross-entropy", {"N": N, "V": V}, inputs,
                  {"both": 2.0 * N * V * FLOAT}, "B", our_cross_entropy,
                  {"F.cross_entropy": torch_cross_entropy})


def our_cross_entropy(a: Arrays) -> Passes:
    """Chunks of rows, as `prediction_forward` goes through them on a CPU; a GPU takes all."""
    logits = a["s"]
    xp, targets = array_module(logits), to_device(a["targets"])
    N, workspace = len(logits), Workspace()
    chunk = CHUNK if on_host(xp) else N

    def both() -> Results:
        ds = workspace.empty(xp, logits.shape, logits.dtype)
        losses = xp.empty((N,), dtype=logits.dtype)
        for start in range(0, N, chunk):
            rows = slice(start, min(start + chunk, N))
            xp.copyto(ds[rows], logits[rows])
            cross_entropy(ds[rows], targets[rows], losses[rows])
        return {"loss": losses.sum(), "ds": ds}

    return Passes({"both": both})


def torch_cross_entropy(a: Arrays) -> Passes:
    """One call, and automatic differentiation."""
    import torch
    from torch.nn import functional

    s = a["s"].requires_grad_()

    def both() -> Results:
        loss = functional.cross_entropy(s, a["targets"], reduction="sum")
        (ds,) = torch.autograd.grad(loss, [s])
        return {"loss": loss, "ds": ds}

    return Passes({"both": both})


def prediction(N: int, H: int, V: int) -> Kernel:
    """Logits, softmax, cross-entropy of N words, and their gradients.

    Our forward also computes the gradient of the logits.
    """
    rng = np.random.default_rng(1)
    shapes = {"h": (N, H), "W_hy": (V, H), "b": (V,)}
    inputs = {name: rng.uniform(-0.1, 0.1, shape).astype(np.float32)
              for name, shape in shapes.items()} | {"targets": rng.integers(0, V, N)}
    forward = 2.0 * N * H * V
    return Kernel("prediction layer", {"N": N, "H": H, "V": V}, inputs,
                  {"forward": forward, "both": 3 * forward}, "FLOP", our_prediction,
                  {"eager PyTorch": torch_prediction})


def our_prediction(a: Arrays) -> Passes:
    """`lstm.prediction` with one workspace for all calls."""
    workspace, targets = Workspace(), to_device(a["targets"])

    def forward() -> Results:
        return {"loss": prediction_forward(a["h"], targets, a["W_hy"], a["b"], workspace)[0]}

    def both() -> Results:
        loss, cache = prediction_forward(a["h"], targets, a["W_hy"], a["b"], workspace)
        dh, dW_hy, db = prediction_backward(cache, workspace=workspace)
        return {"loss": loss, "dh": dh, "W_hy": dW_hy, "b": db}

    return Passes({"forward": forward, "both": both})


def torch_prediction(a: Arrays) -> Passes:
    """A linear map and functional.cross_entropy."""
    import torch
    from torch.nn import functional

    leaves = [a[name].requires_grad_() for name in ("h", "W_hy", "b")]

    def run() -> Any:
        return functional.cross_entropy(functional.linear(*leaves), a["targets"], reduction="sum")

    def forward() -> Results:
        with torch.no_grad():
            return {"loss": run()}

    def both() -> Results:
        loss = run()
        found = torch.autograd.grad(loss, leaves)
        return {"loss": loss, **dict(zip(("dh", "W_hy", "b"), found, strict=True))}

    return Passes({"forward": forward, "both": both})
