"""Write `golden.json`: losses, gradient fingerprints and training runs, by PyTorch in float64.

Run it from the root of the project with PyTorch installed (extra `oracle`):

    PYTHONPATH=.:tests python tests/golden/make_golden.py

It never runs our kernels or optimizers, but only `grads.verification.reference` and `torch.optim`.
Run it again when a case is added or changed. A difference in an old case means that the reference's
mathematics has changed.
"""

from __future__ import annotations

import json
import re

import torch
from golden.cases import (
    CASES,
    PATH,
    RUNS,
    fingerprint,
    golden_batch,
    golden_parameters,
    run_batches,
)

from grads.verification.reference import gradients, luong


def compute(config):
    """One case: the loss in nats and the fingerprint of each gradient."""
    loss, arrays = gradients(luong.loss, config, golden_parameters(config), golden_batch())
    return {"loss": loss, "gradients": {name: fingerprint(arrays[name]) for name in sorted(arrays)}}


def train(run):
    """Ten updates: the loss in nats before each, and the gradient's norm before clipping."""
    config = CASES[run.case]
    weights = {name: torch.tensor(value, requires_grad=True)
               for name, value in golden_parameters(config).items()}
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[run.optimizer]
    optimizer = kind(weights.values(), lr=run.learning_rate)
    losses, norms = [], []
    for batch in run_batches():
        optimizer.zero_grad()
        loss = luong.loss(config, weights, batch)
        (loss / len(batch.indices)).backward()
        norm = torch.sqrt(sum((weight.grad**2).sum() for weight in weights.values())).item()
        if run.max_norm is not None and norm > run.max_norm:
            for weight in weights.values():
                weight.grad *= run.max_norm / norm
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm)
    return {"losses": losses, "norms": norms}


def make():
    """All that `golden.json` holds."""
    golden = {name: compute(config) for name, config in CASES.items()}
    return golden | {"runs": {name: train(run) for name, run in RUNS.items()}}


if __name__ == "__main__":
    text = json.dumps(make(), indent=1)
    text = re.sub(r",\n {4,}", ", ", re.sub(r"\[\n +", "[", re.sub(r"\n +\]", "]", text)))
    PATH.write_text(text + "\n", encoding="utf-8")
