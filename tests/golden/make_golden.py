"""Write `golden.json`: losses, gradient fingerprints and training runs, by PyTorch in float64.

Run it from the root of the project with PyTorch installed (extra `oracle`):

    PYTHONPATH=.:tests python tests/golden/make_golden.py

It never runs our own kernels or optimizers, only `benchmarks.peer_torch` and `torch.optim`. Rerun
it when a case is added or changed; a difference in an old case means that the mathematics of the
peer has changed.
"""

from __future__ import annotations

import json
import re

import torch
from golden.cases import (
    CASES,
    PATH,
    RUNS,
    SOURCE_SIZE,
    TARGET_SIZE,
    fingerprint,
    golden_batch,
    golden_parameters,
    run_batches,
)

from benchmarks.peer_torch import TorchTranslator


def compute(config):
    """One case: the loss in nats and the fingerprint of each gradient."""
    peer = TorchTranslator(config, SOURCE_SIZE, TARGET_SIZE).load(golden_parameters(config))
    loss = peer(golden_batch())
    loss.backward()
    gradients = peer.dump(gradients=True)
    prints = {name: fingerprint(gradients[name]) for name in sorted(gradients)}
    return {"loss": loss.item(), "gradients": prints}


def train(run):
    """Ten updates: the loss in nats before each, and the gradient's norm before clipping."""
    config = CASES[run.case]
    peer = TorchTranslator(config, SOURCE_SIZE, TARGET_SIZE).load(golden_parameters(config))
    weights = [weight for weight in peer.parameters() if weight.requires_grad]
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[run.optimizer]
    optimizer = kind(weights, lr=run.learning_rate)
    losses, norms = [], []
    for batch in run_batches():
        optimizer.zero_grad()
        loss = peer(batch)
        (loss / len(batch.indices)).backward()
        norm = torch.sqrt(sum((weight.grad**2).sum() for weight in weights)).item()
        if run.max_norm is not None and norm > run.max_norm:
            for weight in weights:
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
