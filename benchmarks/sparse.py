"""Sentences/s of search with a pruned model, with sparse and with dense matrix products, on the
CPU.

The translator of `benchmarks.search`, each class pruned by the same percentage; sparse are the
decoder's layers, W_c and the prediction. Hypotheses are the same, and log-probabilities in float64
equal, before anything is timed in float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from backend.command import natural, positive
from backend.errors import UserError
from benchmarks.options import make_parser
from benchmarks.options import parse as read_options
from benchmarks.paired import timed
from benchmarks.pictures import COLOURS, MARKS, titled
from benchmarks.record import publish_rows
from benchmarks.search import make_model
from benchmarks.timing import describe, environment
from nmt.data.batches import Side, make_sources
from nmt.models.translator import Translator
from nmt.pruning.classes import classes
from nmt.pruning.inference import sparse_parameters
from nmt.pruning.schemes import masks
from nmt.search.beam import beam_search
from nmt.search.interface import SearchOptions

EXACT = 1e-9  # relative distance of log-probabilities in float64
QUICK = {"hidden": 8, "layers": 1, "vocabulary": 40, "source": 4, "steps": 4, "percents": [80],
         "sentences": [2], "beams": [1, 3], "seconds": 0.01}

Parameters = Mapping[str, Any]


def main(arguments: list[str]) -> None:
    """Compare, print, and write `sparse-<kernels>.json`."""
    options = parse(arguments)
    if find_spec("scipy") is None:
        raise UserError("sparse: scipy is not installed; install the extra `sparse` to compare")
    print(describe(environment()))
    model, parameters = make_model(options)
    rows = [run(model, pruned(model, parameters, percent), percent, beam, sentences, options)
            for percent in options.percents for beam in options.beams
            for sentences in options.sentences]
    publish_rows("sparse", vars(options), rows, picture, directory=options.output)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = make_parser("sparse", __doc__)
    sizes = {"hidden": 512, "layers": 2, "vocabulary": 10000, "source": 25, "steps": 25}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"default {default}")
    parser.add_argument("--percents", type=positive, nargs="+", default=[50, 80, 90, 95, 98],
                        help="of the weights pruned, default 50 80 90 95 98")
    parser.add_argument("--sentences", type=positive, nargs="+", default=[1, 16],
                        help="searched at once, default 1 16")
    parser.add_argument("--beams", type=positive, nargs="+", default=[1, 10],
                        help="hypotheses kept, 1 is greedy; default 1 10")
    parser.add_argument("--seed", type=natural, default=1, help="of parameters and ids, default 1")
    options = read_options(parser, arguments)
    if options.quick:
        vars(options).update(QUICK)
    return options


def pruned(model: Translator, parameters: Parameters, percent: float) -> dict[str, np.ndarray]:
    """The parameters in float64 with a percentage of each class zero."""
    found = masks(parameters, classes(model.weights()), percent, "class-uniform")
    return {name: np.where(found[name], array, 0) if name in found else array
            for name, array in parameters.items()}


def run(
    model: Translator, parameters: Parameters, percent: float, beam: int, sentences: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Compare, time and print one percentage, beam and number of sentences; the record's row."""
    rng = np.random.default_rng(options.seed)
    words = rng.integers(2, options.vocabulary, (sentences, options.source)).tolist()
    sources = make_sources(words, reverse=False)
    how = SearchOptions(beam=beam, nbest=beam, length_factor=1e-9, minimum_steps=options.steps)
    difference = compare(model, parameters, sources, how)
    timings = timed(searches(model, parameters, "float32", sources, how), options.seconds)
    ratio = timings["dense"].median / timings["sparse"].median
    print(f"{percent:3} % pruned, beam {beam}, {sentences} sentences: "
          f"dense {1e3 * timings['dense'].median:.1f} ms, "
          f"sparse {1e3 * timings['sparse'].median:.1f} ms, dense / sparse {ratio:.2f}; "
          f"equal to {difference:.1e}")
    return {"percent": percent, "beam": beam, "sentences": sentences, "steps": options.steps,
            "seconds": {name: timing._asdict() for name, timing in timings.items()},
            "ratio": ratio, "difference": difference}


def searches(
    model: Translator, parameters: Parameters, dtype: str, sources: tuple[Side, ...],
    how: SearchOptions,
) -> dict[str, Callable[[], Any]]:
    """Search with dense products and with sparse ones."""
    dense = {name: array.astype(dtype) for name, array in parameters.items()}
    sparse = sparse_parameters(model.weights(), dense, share=1.0)
    return {"dense": partial(beam_search, model, dense, sources, how),
            "sparse": partial(beam_search, model, sparse, sources, how)}


def compare(
    model: Translator, parameters: Parameters, sources: tuple[Side, ...], how: SearchOptions
) -> float:
    """The largest relative difference of log-probabilities in float64.

    Raises AssertionError unless all hypotheses are the same, word for word, and it is below EXACT.
    """
    dense, sparse = (one() for one in searches(model, parameters, "float64", sources,
                                               how).values())
    pairs = [pair for ours, theirs in zip(sparse, dense, strict=True)
             for pair in zip(ours, theirs, strict=True)]
    if any(a.tokens != b.tokens for a, b in pairs):
        raise AssertionError("sparse: the hypotheses are not those of dense products")
    largest = max(abs(a.log_probability / b.log_probability - 1) for a, b in pairs)
    if not largest < EXACT:
        raise AssertionError(f"sparse: log-probabilities differ by {largest:.1e}")
    return largest


def picture(plt: Any, record: Mapping[str, Any]) -> Any:
    """The speed-up by sparse products against the percentage pruned."""
    rows = record["rows"]
    figure, axes = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    cases = list(dict.fromkeys((row["beam"], row["sentences"]) for row in rows))
    for colour, mark, (beam, sentences) in zip(COLOURS, MARKS, cases, strict=False):
        own = [row for row in rows if (row["beam"], row["sentences"]) == (beam, sentences)]
        axes.plot([row["percent"] for row in own], [row["ratio"] for row in own], f"{mark}-",
                  color=colour, label=f"{'greedy' if beam == 1 else f'beam {beam}'}, "
                                      f"{sentences} sentence{'s' if sentences > 1 else ''}")
    axes.axhline(1.0, color="black", linestyle=":", linewidth=1)
    axes.set(xlabel="percent of the weights pruned", ylabel="dense time / sparse time",
             ylim=(0, None))
    axes.legend(frameon=False)
    titled(figure, "Search with a pruned model: sparse products against dense ones",
           record["environment"], "above the dotted line sparse products are faster.")
    return figure
