"""Times a training step, ours against eager PyTorch: forward, backward, clip, SGD update.

The model is a small model of the thesis's section 4.3: two LSTM layers, global `general` attention,
sentences of one length, with input feeding and without. `variants` times all variants of attention
except the renormalised Gaussian of local-p, and RNNsearch (Bahdanau et al., 2015) and a Transformer
with four heads, with the same width and number of layers. Losses, gradients and updated parameters
must agree in float64 before float32 is timed. For steps with a goal, their matrix products are also
timed alone: no step with these products can be faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from benchmarks.case import Case
from benchmarks.pictures import Chart, Panel
from benchmarks.recipes import step_case
from benchmarks.records import Row, middle, nested, ratios, timings
from benchmarks.runner import Benchmark, Record
from benchmarks.timing import blas_kernels
from benchmarks.training import Workload
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.transformer import TransformerConfig
from nmt.models.translator_config import ModelConfig
from nmt.training.options import TrainOptions

SIZES = {"hidden": 512, "layers": 2, "batch": 64, "source": 20, "target": 20, "vocabulary": 10000,
         "window": 10, "seed": 1}
QUICK = {"hidden": 8, "layers": 1, "batch": 4, "source": 6, "target": 4, "vocabulary": 12,
         "window": 1}
LEARNING_RATE, MAX_NORM = 0.1, 5.0  # of the normalised gradient (thesis, 4.3.1)
SMALLER = 4  # compared in float64 with a quarter of the units, sentences and words
SCORES = {  # windows and scores of the table, in its order
    "global": ("dot", "general", "concat", "concat, identity", "location", "additive"),
    "local-m": ("dot", "general", "concat", "concat, identity", "additive"),
    "local-p": ("dot", "general", "concat", "concat, identity", "additive"),
}
# Goals of our time / PyTorch's. A prototype reached them on another machine with two cores.
PRODUCTS_GOAL = 0.92  # goal: time of a step's matrix products alone / time of the step
GOALS = {"global general, feeding": {"haswell": 0.75, "native": 0.45},
         "global general, no feeding": {"haswell": 1.1, "native": 0.70}}


def variants(options: argparse.Namespace, smaller: int = 1) -> dict[str, Any]:
    """The configurations of the table, by name, or with a fraction of their units."""
    width = max(1, options.hidden // smaller)
    sizes: dict[str, Any] = {"layers": options.layers, "hidden_size": width,
                             "embedding_size": width, "window": options.window}
    configs: dict[str, Any] = {
        "no attention": ModelConfig(attention="none", input_feeding=False, **sizes)}
    for attention, scores in SCORES.items():
        for score in scores:
            for feeding in (True, False):
                configs[f"{attention} {score}, {'' if feeding else 'no '}feeding"] = ModelConfig(
                    attention=attention, score=score.split(",")[0], input_feeding=feeding,
                    concat_identity="identity" in score, **sizes)
    width = max(2, width)
    configs["RNNsearch"] = RNNSearchConfig(hidden_size=width, embedding_size=width,
                                         layer_size=width // 2)
    width = 4 * max(1, width // 4)  # four heads, and the inner layer as wide as usual
    configs["Transformer"] = TransformerConfig(options.layers, options.layers, width, 4 * width,
                                             dropout=0.0)
    return configs


def workload(config: Any, options: argparse.Namespace, smaller: int = 1) -> Workload:
    """The step of the options, or a step with a fraction of its sentences and words."""
    V, B = max(3, options.vocabulary // smaller), max(1, options.batch // smaller)
    train = TrainOptions(batch_size=B, learning_rate=LEARNING_RATE, max_norm=MAX_NORM)
    return Workload(config, train, True, V, V, options.source, options.target)


def every_variant(options: argparse.Namespace) -> Iterator[Case]:
    """A case for each variant."""
    sizes = {"layers": options.layers, "H": options.hidden, "B": options.batch,
             "S": options.source, "T": options.target, "V": options.vocabulary}
    smaller = 1 if options.quick else SMALLER
    few = variants(options, smaller)
    for name, config in variants(options).items():
        goals = GOALS.get(name, {})
        yield step_case(name, workload(config, options), workload(few[name], options, smaller),
                        options.seed, None, bound=name in GOALS, sizes=sizes,
                        goals={"PyTorch": goals[blas_kernels()]} if goals else {})


def chart(record: Record) -> Chart:
    """A pair of bars for each variant."""
    def place(row: Row) -> str:
        return row["case"] + "".join(f"  ({ratio:.2f})" for ratio in ratios(row).values())

    return Chart("A training step of a translator: forward, backward, clip, update "
                 "(in brackets: here / PyTorch)",
                 "shorter bars are better; below 1 in brackets is faster here.",
                 [Panel("bars", nested((name, place(row), middle(timing))
                                       for row, name, timing in timings(record)),
                        "milliseconds (bars: medians, lines: quartiles)")])


VARIANTS = Benchmark(every_variant, SIZES, QUICK, seconds=12.0, gpu=True, chart=chart)
STEP = VARIANTS._replace(cases=lambda options: (  # the two that have a goal, timed for longer
    case._replace(seconds=3.0) for case in every_variant(options) if case.name in GOALS))
BENCHMARKS = {"step": STEP, "variants": VARIANTS}
