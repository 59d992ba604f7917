"""The worker process of `benchmarks.two_trees`: it works with the packages of one tree.

It is started as a script, with only this tree on its path: `benchmarks` below is the tree's own,
which knows the names of its functions. Arguments: a JSON object with the kind of work, its sizes
and the number of calls. It writes a number on which all trees should agree. Then, for each line
that it reads, it does the work this number of times and answers with a line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Run = Callable[[], float]  # does the work once; a number that both trees share
Sizes = Mapping[str, int]
NEVER = -1e4  # bias of the end marker, so that every hypothesis takes all steps


def layer(sizes: Sizes) -> Run:
    """An LSTM layer forward and backward; a sum of its results."""
    from benchmarks.kernel_list.recurrent import draw, our_layer

    shape = sizes["T"], sizes["B"], sizes["H"]
    both = our_layer("lstm", draw(4, sizes["H"], {"x": shape, "dh": shape})).run["both"]

    def run() -> float:
        results = both()
        return float(results["h"][-1].sum() + results["dx"][0].sum())

    return run


def step(sizes: Sizes) -> Run:
    """A training step: forward, backward, clip, update by SGD; the loss of a word."""
    from benchmarks.training import Workload, our_step, random_batch
    from nmt.training.options import TrainOptions

    B, T, V = sizes["B"], sizes["T"], sizes["V"]
    train = TrainOptions(batch_size=B, learning_rate=0.01, max_norm=5.0)
    model, parameters = translator(sizes, scale=0.1)
    work = Workload(model.config, train, True, V, V, T, T)
    update = our_step(model, parameters, random_batch(work, np.random.default_rng(2)), train)
    return lambda: update() / (B * T)


def beam(sizes: Sizes) -> Run:
    """Beam search for sentences that never end; the best log-probability of a word."""
    from nmt.data.batches import make_sources
    from nmt.data.vocabulary import END
    from nmt.search.beam import beam_search
    from nmt.search.interface import SearchOptions

    K, T = sizes["K"], sizes["T"]
    model, parameters = translator(sizes, scale=0.2)
    parameters["output.b"][END] = NEVER
    words = np.random.default_rng(2).integers(2, sizes["V"], (sizes["B"], T)).tolist()
    sources = make_sources(words, reverse=False)
    options = SearchOptions(beam=K, nbest=K, length_factor=1e-9, minimum_steps=T)
    return lambda: float(beam_search(model, parameters, sources, options)[0][0].log_probability) / T


def translator(sizes: Sizes, scale: float) -> tuple[Any, dict[str, np.ndarray]]:
    """A translator with global attention, and uniform parameters in float32."""
    from nmt.models.translator import Translator
    from nmt.models.translator_config import ModelConfig

    config = ModelConfig(layers=sizes["L"], hidden_size=sizes["H"], embedding_size=sizes["H"],
                         input_feeding=bool(sizes["feeding"]), dropout=0.0, output_bias=True)
    model, rng = Translator(config, sizes["V"], sizes["V"], True), np.random.default_rng(1)
    return model, {name: rng.uniform(-scale, scale, weight.shape).astype(np.float32)
                   for name, weight in sorted(model.weights().items())}


WORK: dict[str, Callable[[Sizes], Run]] = {"layer": layer, "step": step, "beam": beam}


def main() -> None:
    """Prepare, say the number, and work at each line of the input."""
    asked = json.loads(sys.argv[1])
    run = WORK[asked["kind"]](asked["sizes"])
    sys.stdout.write(f"{run()}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        for _ in range(asked["calls"]):
            run()
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
