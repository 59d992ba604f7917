"""Write `golden.json`: losses and gradient fingerprints computed by PyTorch in float64.

Run it from the root of the project with PyTorch installed (extra `oracle`):

    PYTHONPATH=.:tests python tests/golden/make_golden.py

It never runs our own kernels, only `benchmarks.peer_torch`. Rerun it when a case is added or
changed; a difference in an old case means that the mathematics of the peer has changed.
"""

from __future__ import annotations

import json
import re

from golden.cases import (
    CASES,
    PATH,
    SOURCE_SIZE,
    TARGET_SIZE,
    fingerprint,
    golden_batch,
    golden_parameters,
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


if __name__ == "__main__":
    golden = {name: compute(config) for name, config in CASES.items()}
    text = json.dumps(golden, indent=1)
    text = re.sub(r",\n {4,}", ", ", re.sub(r"\[\n +", "[", re.sub(r"\n +\]", "]", text)))
    PATH.write_text(text + "\n", encoding="utf-8")
