"""Sentences/s of greedy and beam search, ours against batched PyTorch.

A 2x512 translator with general attention and input feeding, 10,000 words. Its end marker is never
chosen, so that every hypothesis takes the same number of steps and both do equal work. Hypotheses
and scores are compared, in float64 exactly, before anything is timed in float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

import backend
from backend.command import natural, positive
from backend.errors import UserError
from benchmarks.devices import Device, device_option, devices
from benchmarks.options import make_parser
from benchmarks.options import parse as read_options
from benchmarks.paired import timed
from benchmarks.pictures import COLOURS, LABELS, MARKS, plain_numbers, titled
from benchmarks.record import publish_rows
from benchmarks.timing import Timing, describe, environment
from nmt.data.batches import make_sources
from nmt.data.vocabulary import END
from nmt.models.translator import ModelConfig, Translator
from nmt.search.beam import beam_search, greedy
from nmt.search.interface import Hypothesis, SearchOptions

NEVER = -1e4  # bias of the end marker
COMPARED = 16  # sentences whose hypotheses are compared, at most
EXACT, CLOSE = 1e-9, 1e-4  # relative distance of log-probabilities, float64 and float32
QUICK = {"hidden": 8, "layers": 2, "vocabulary": 40, "source": 5, "steps": 6,
         "sentences": [1, 3], "beams": [1, 3], "seconds": 0.01}

Search = Callable[[], Any]


def main(arguments: list[str]) -> None:
    """Compare, print, and write `search-<kernels>.json` (or `search-gpu.json`)."""
    options = parse(arguments)
    if find_spec("torch") is None:
        raise UserError("search: PyTorch is not installed; install the extra `oracle` to compare")
    print(describe(environment()))
    model, parameters = make_model(options)
    for device in devices(options.device, options.gemm):
        rows = [
            run(model, parameters, beam, sentences, device, options)
            for beam in options.beams for sentences in options.sentences
        ]
        record = "search" if options.gemm == "float32" else f"search-{options.gemm}"
        publish_rows(record, vars(options), rows, picture, directory=options.output,
                     gpu=device.name == "gpu")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = make_parser("search", __doc__)
    sizes = {"hidden": 512, "layers": 2, "vocabulary": 10000, "source": 25, "steps": 25}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"default {default}")
    parser.add_argument("--sentences", type=positive, nargs="+", default=[1, 4, 16, 64],
                        help="searched at once, default 1 4 16 64")
    parser.add_argument("--beams", type=positive, nargs="+", default=[1, 10],
                        help="hypotheses kept, 1 is greedy; default 1 10")
    parser.add_argument("--seed", type=natural, default=1, help="of parameters and ids, default 1")
    device_option(parser)
    options = read_options(parser, arguments)
    if options.quick:
        vars(options).update(QUICK)
    return options


def make_model(options: argparse.Namespace) -> tuple[Translator, dict[str, np.ndarray]]:
    """The translator and its parameters in float64, such that no hypothesis ever ends.

    Weights have a larger range than for training, so that scores of words differ.
    """
    config = ModelConfig(layers=options.layers, hidden_size=options.hidden, scale=0.2,
                         embedding_size=options.hidden, output_bias=True)
    model = Translator(config, options.vocabulary, options.vocabulary)
    parameters = model.initial_parameters(np.random.default_rng(options.seed), "float64")
    parameters["output.b"][END] = NEVER
    return model, parameters


def run(
    model: Translator, parameters: Mapping[str, np.ndarray], beam: int, sentences: int,
    device: Device, options: argparse.Namespace,
) -> dict[str, Any]:
    """Compare, time and print one beam and number of sentences; the row of the record."""
    rng = np.random.default_rng(options.seed)
    words = rng.integers(2, options.vocabulary, (sentences, options.source)).tolist()
    difference = compare(model, parameters, words[:COMPARED], beam, device, options.steps)
    ours, theirs = searches(model, parameters, "float32", words, beam, device, options.steps)
    implementations = {"ours": ours} | ({"pytorch": theirs} if theirs else {})
    timings = timed({name: device.finished(one) for name, one in implementations.items()},
                    options.seconds)
    row = {
        "device": device.name, "beam": beam, "sentences": sentences, "steps": options.steps,
        "seconds": {name: timing._asdict() for name, timing in timings.items()},
        "sentences_per_second": {name: sentences / timing.median
                                 for name, timing in timings.items()},
        "difference": difference,
    }
    if theirs:
        row["ratio"] = timings["ours"].median / timings["pytorch"].median
    report(row, timings)
    return row


def searches(
    model: Translator, parameters: Mapping[str, np.ndarray], dtype: str, words: list[list[int]],
    beam: int, device: Device, steps: int,
) -> tuple[Search, Search | None]:
    """Our search and PyTorch's (None if it cannot use the device), of the n = `beam` best."""
    import torch

    from benchmarks.peer import Peer
    from benchmarks.peer_search import beam_search as their_search

    sources = make_sources(words, reverse=False)
    on_host = {name: array.astype(dtype) for name, array in parameters.items()}
    with backend.using(device.backend):
        mine = {name: backend.to_device(array) for name, array in on_host.items()}
    how = SearchOptions(beam=beam, nbest=beam, length_factor=1e-9, minimum_steps=steps)

    def ours() -> list[list[Hypothesis]]:
        with backend.using(device.backend):
            if beam == 1:
                return [[one] for one in greedy(model, mine, sources, how)]
            return beam_search(model, mine, sources, how)

    if device.torch is None:
        return ours, None
    torch.set_num_threads(environment()["cores"])
    peer = Peer(model, on_host, device.torch)
    return ours, lambda: their_search(peer, *sources, beam, steps, beam)


def compare(
    model: Translator, parameters: Mapping[str, np.ndarray], words: list[list[int]], beam: int,
    device: Device, steps: int,
) -> float:
    """The largest relative difference of log-probabilities in float32, where equal in float64.

    Raises AssertionError unless in float64 all hypotheses are the same, word for word, and in
    float32 the log-probabilities of the best are close: there rounding may decide between ties.
    """
    largest = 0.0
    for dtype, allowed in (("float64", EXACT), ("float32", CLOSE)):
        ours, theirs = searches(model, parameters, dtype, words, beam, device, steps)
        if theirs is None:
            return 0.0
        pairs = [pair for mine, other in zip(ours(), theirs(), strict=True)
                 for pair in zip(mine, other, strict=True)]
        if dtype == "float64" and any(a.tokens != b.tokens for a, b in pairs):
            raise AssertionError("search: our hypotheses are not PyTorch's")
        if any(len(a.tokens) != steps for a, _ in pairs):
            raise AssertionError("search: a hypothesis ended")
        largest = max(abs(a.log_probability / b.log_probability - 1) for a, b in pairs)
        if not largest < allowed:
            raise AssertionError(f"search: {dtype}: log-probabilities differ by {largest:.1e}")
    return largest


def report(row: Mapping[str, Any], timings: Mapping[str, Timing]) -> None:
    """Print one row."""
    kind = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
    print(f"\n{kind}, {row['sentences']} sentences, {row['steps']} steps, {row['device']}; "
          f"log-probabilities equal to {row['difference']:.1e}")
    for name, timing in timings.items():
        print(f"  {name:>8} {timing}{row['sentences_per_second'][name]:10.1f} sentences/s")
    print(f"     ratio {row['ratio']:8.2f} ours / PyTorch" if "ratio" in row
          else "  PyTorch: not run")


def picture(plt: Any, record: Mapping[str, Any]) -> Any:
    """Sentences/s against how many are searched at once; a panel for each beam."""
    rows = record["rows"]
    beams = sorted({row["beam"] for row in rows})
    figure, panels = plt.subplots(1, len(beams), figsize=(1 + 3.7 * len(beams), 4.0),
                                  squeeze=False, layout="constrained")
    for axes, beam in zip(panels[0], beams, strict=True):
        own = [row for row in rows if row["beam"] == beam]
        for colour, mark, name in zip(COLOURS, MARKS, own[0]["sentences_per_second"],
                                      strict=False):
            sizes = [row["sentences"] for row in own]
            axes.plot(sizes, [row["sentences_per_second"][name] for row in own], f"{mark}-",
                      color=colour, label=LABELS.get(name, name))
            axes.fill_between(sizes, *([row["sentences"] / row["seconds"][name][quartile]
                                        for row in own] for quartile in ("high", "low")),
                              color=colour, alpha=0.2, linewidth=0)
        axes.set(title="greedy" if beam == 1 else f"beam {beam}", xlabel="sentences at once",
                 ylabel="sentences/s", xscale="log", yscale="log", xticks=sizes)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        plain_numbers(axes.yaxis)
        axes.minorticks_off()
    panels[0][0].legend(frameon=False)
    titled(figure, f"Search: sentences a second, {rows[0]['steps']} words each",
           record["environment"], "further up is faster; the band holds the middle half of the "
           "measurements. More sentences at once share the matrix products.")
    return figure
