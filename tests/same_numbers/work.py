"""Computes the numbers of a configuration, a search, an optimizer and a run.

`stored.json` holds them of the tree before the rewrite; `test_same_numbers.py` computes them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from same_numbers import draws, trees

HERE = Path(__file__).parent
STORED = HERE / "stored.json"
TABLE, IDS = (30, 8), (9, 4, 17, 1, 30)  # a table, and how many of its rows each update touches
BRIEF = ("one sentence", "one step")  # batches of which one number per gradient is stored
WEIGHTS = {"W": (260, 270), "W_e": TABLE, "b": (7,)}  # W has more elements than a block
SENTENCES, MAX_NORM = 4, 66.2  # some updates are clipped, some are not


class Stored:
    """The stored file with its defaults filled in."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def parameters(self, case: Mapping[str, Any], batch: str) -> trees.Arrays:
        """The parameters of a configuration with a batch of this name."""
        shapes = self.document["weights"][case["weights"]]
        return draws.parameters(shapes, case.get("draw", 0), batch.startswith(draws.REAL))

    def system(self, case: Mapping[str, Any], batch: str) -> tuple[Any, ...]:
        """Architecture, config, size, reversed or not, batch, parameters: as `trees.run` takes."""
        config = self.document["defaults"][case["architecture"]] | case["config"]
        size = self.document["vocabulary"]["real" if batch.startswith(draws.REAL) else "tiny"]
        return (case["architecture"], config, size, case.get("reverse", False),
                self.document["batches"][batch], self.parameters(case, batch))


def numbers(stored: Stored, case: Mapping[str, Any], batch: str) -> list[list[float]]:
    """[Loss], then what is stored of every gradient, in the order of the stored weights.

    That is its fingerprint, or of a batch that is `BRIEF` the first of its two projections.
    """
    loss, gradients = trees.run(*stored.system(case, batch))
    names = [*stored.document["weights"][case["weights"]],
             *sorted(name for name in gradients if name.startswith("last."))]
    assert set(names) == gradients.keys()
    prints = [draws.fingerprint(name, gradients[name]) for name in names]
    brief = batch.startswith(BRIEF)
    return [[loss], *([projection] if brief else [norm, projection, other]
                      for norm, projection, other in prints)]


def hypotheses(stored: Stored, case: Mapping[str, Any], batch: str) -> list[list[dict[str, Any]]]:
    """What a search finds for each sentence: tokens, log-probability, score, alignment."""
    lists = trees.search(*stored.system(case, batch), case["search"])
    return [[{"tokens": [int(token) for token in hypothesis.tokens],
              "finished": bool(hypothesis.finished),
              "log_probability": float(hypothesis.log_probability),
              "score": float(hypothesis.score),
              "alignment": None if hypothesis.alignment is None
              else [*hypothesis.alignment.shape,
                    *draws.fingerprint("alignment", hypothesis.alignment)]}
             for hypothesis in nbest] for nbest in lists]


def trajectory(name: str) -> list[list[float]]:
    """The factor, the norm, and the fingerprints of the parameters of each update."""
    optimizer, updates = trees.OPTIMIZERS[name](), []
    parameters = draws.parameters(WEIGHTS, 0, real=False)
    for step, count in enumerate(IDS):
        random = draws.random_state("gradient", step)
        gradients: dict[str, Any] = {
            weight: random.standard_normal(WEIGHTS[weight]) for weight in ("W", "b")}
        ids = np.sort(random.permutation(TABLE[0])[:count])
        gradients["W_e"] = ids, random.standard_normal((count, TABLE[1])), TABLE
        if step == 1:
            del gradients["b"]  # a parameter's own updates are counted
        scale_and_norm = trees.update(optimizer, parameters, gradients, SENTENCES, MAX_NORM)
        updates.append([*scale_and_norm, *(number for weight, array in parameters.items()
                                           for number in draws.fingerprint(weight, array))])
    return updates


def run(kind: str, directory: Path) -> tuple[list[float], trees.Arrays]:
    """Train by the recipe of this kind: all losses of the log, and the last parameters."""
    text, random = directory / "text", draws.random_state("text")
    lines = (random.geometric(0.15, size=random.randint(1, 10)) for _ in range(80))
    text.write_text("".join(" ".join(f"w{k}" for k in line) + "\n" for line in lines), "utf-8")
    options = ["--text.train", str(text)] if kind == "language_model" else []
    return trees.train(kind, HERE / f"{kind}.yaml", directory / kind, *options)
