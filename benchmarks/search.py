"""Measures sentences/s of greedy and beam search, ours against batched PyTorch, a Transformer's
against CTranslate2 too; with a pruned model, sparse matrix products against dense ones (`sparse`).

The models are a 2x512 translator with general attention, input feeding and 10,000 words, and a
Transformer with three layers of 256 units on each side and 10,000 words, whose keys and values are
kept. The end marker is never chosen, so that every hypothesis takes the same number of steps and
both searches do the same work. Before the timing in float32, hypotheses and scores are compared, in
float64 exactly.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import backend
from backend.host import blas_threads
from backend.products import for_search
from benchmarks.case import Case, Prepared
from benchmarks.devices import Device
from benchmarks.pictures import Chart, Panel
from benchmarks.records import nested, ratios, timings
from benchmarks.runner import Benchmark, Record
from benchmarks.timing import blas_kernels
from benchmarks.training import peer_on
from nmt.data.batches import make_sources
from nmt.data.vocabulary import END, Vocabulary
from nmt.models.contract import Tables
from nmt.models.registry import make_model
from nmt.models.transformer import Transformer, TransformerConfig
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig
from nmt.pruning.classes import classes
from nmt.pruning.inference import sparse_parameters
from nmt.pruning.schemes import masks
from nmt.recipe import DataConfig, Recipe
from nmt.search.beam import beam_search, greedy
from nmt.search.interface import Hypothesis, SearchOptions
from nmt.system import System

NEVER = -1e4  # bias of the end marker
COMPARED = 16  # sentences whose hypotheses are compared, at most
EXACT, CLOSE = 1e-9, 1e-4  # relative distance of log-probabilities, float64 and float32
GOALS = {"haswell": 0.7, "native": 0.45}  # of our time / PyTorch's: beam 10, 16 sentences
COMPILED = {(1, 1): 1.4, (1, 10): 1.4, (16, 1): 1.0, (64, 1): 1.0, (16, 10): 0.95, (64, 10): 0.95}
# goals of a Transformer's time / CTranslate2's, by sentences and beam
SIZES: dict[str, Any] = {"hidden": 512, "layers": 2, "width": 256, "depth": 3,
                         "vocabulary": 10000, "source": 25, "steps": 25,
                         "sentences": [1, 4, 16, 64], "beams": [1, 10], "seed": 1}
QUICK: dict[str, Any] = {"hidden": 8, "layers": 2, "width": 8, "depth": 1,
                         "vocabulary": 40, "source": 5, "steps": 6, "sentences": [1, 3],
                         "beams": [1, 3]}

Parameters = Mapping[str, Any]
Searches = Mapping[str, Callable[[], Any]]  # by implementation, ours first
Make = Callable[[Device, str, list[list[int]], int], Searches]  # dtype, words, beam


def make_models(options: argparse.Namespace) -> dict[str, tuple[Any, dict[str, np.ndarray]]]:
    """Translators by name, and their parameters in float64, with which no hypothesis ever ends.

    Weights of the recurrent one have a larger range than for training, so that scores of words
    differ.
    """
    recurrent = ModelConfig(layers=options.layers, hidden_size=options.hidden, scale=0.2,
                            embedding_size=options.hidden, output_bias=True)
    layers = TransformerConfig(options.depth, options.depth, options.width, 4 * options.width,
                               dropout=0.0, initialisation="normal")
    models, sizes = {}, Tables((options.vocabulary,), options.vocabulary)
    for name, config in (("", recurrent), ("Transformer, ", layers)):
        model = make_model(config, sizes)
        parameters = model.initial_parameters(np.random.default_rng(options.seed), "float64")
        parameters["output.b"][END] = NEVER
        models[name] = model, parameters
    return models


def search_case(
    name: str, beam: int, sentences: int, make: Make, options: argparse.Namespace,
    dtypes: tuple[str, ...] = ("float64", "float32"), **declared: Any,
) -> Case:
    """The case of a beam and a number of sentences. dtypes: those that are compared."""
    rng = np.random.default_rng(options.seed)
    words = rng.integers(2, options.vocabulary, (sentences, options.source)).tolist()

    def prepare(device: Device) -> Prepared:
        compared = {
            dtype: compare(make(device, dtype, words[:COMPARED], beam), options.steps, dtype)
            for dtype in dtypes}
        calls = make(device, "float32", words, beam)
        return Prepared({name: device.finished(call) for name, call in calls.items()}, compared)

    return Case(name, {"beam": beam, "sentences": sentences, "steps": options.steps}, prepare,
                sentences, "sentences", **declared)


def compare(searches: Searches, steps: int, dtype: str) -> float:
    """The largest relative difference of log-probabilities; 0 for a single search.

    Raises AssertionError unless in float64 all hypotheses are the same, word for word, and all
    log-probabilities are close: in float32 rounding may decide between ties.
    """
    first, *peers = (search() for search in searches.values())
    largest = 0.0
    for hypotheses in peers:
        pairs = [pair for mine, theirs in zip(first, hypotheses, strict=True)
                 for pair in zip(mine, theirs, strict=True)]
        if dtype == "float64" and any(a.tokens != b.tokens for a, b in pairs):
            raise AssertionError(f"search: the hypotheses of {' and '.join(searches)} differ")
        if any(len(a.tokens) != steps for a, _ in pairs):
            raise AssertionError("search: a hypothesis ended")
        largest = max([largest, *(abs(a.log_probability / b.log_probability - 1)
                                  for a, b in pairs)])
        if not largest < (EXACT if dtype == "float64" else CLOSE):
            raise AssertionError(f"search: {dtype}: log-probabilities differ by {largest:.1e}")
    return largest


def how(beam: int, steps: int) -> SearchOptions:
    """The options of a search for the `beam` best hypotheses of exactly this number of words."""
    return SearchOptions(beam=beam, nbest=beam, length_factor=1e-9, minimum_steps=steps)


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Every model and beam with every number of sentences."""
    for model, arguments in make_models(options).items():
        make = partial(beside_pytorch, *arguments, options.steps)
        for beam, sentences in product(options.beams, options.sentences):
            goals = {}
            if (beam, sentences) == (10, 16):
                goals["PyTorch"] = 1.0 if model else GOALS[blas_kernels()]
            if model and (sentences, beam) in COMPILED:
                goals["CTranslate2"] = COMPILED[sentences, beam]
            yield search_case(model + ("greedy" if beam == 1 else f"beam {beam}"), beam, sentences,
                              make, options, goals=goals)


def beside_pytorch(
    model: Any, parameters: Parameters, steps: int, device: Device, dtype: str,
    words: list[list[int]], beam: int,
) -> Searches:
    """Our search and PyTorch's. If PyTorch cannot use the device, NumPy's, for the comparison."""
    sources, options = make_sources(words, reverse=False), how(beam, steps)
    on_host = {name: array.astype(dtype) for name, array in parameters.items()}

    def ours(where: Any) -> Callable[[], Any]:
        with backend.using(where):
            mine = for_search({name: backend.to_device(array)
                                  for name, array in on_host.items()}, beam * len(words))

        def find() -> Any:
            with backend.using(where):
                if beam == 1:
                    return [[path] for path in greedy(model, mine, sources, options)]
                return beam_search(model, mine, sources, options)
        return find

    calls, peer = {"here": ours(device.backend)}, peer_on(device, model, on_host)
    if peer is None:
        return calls | ({} if device.name == "cpu" else {"NumPy": ours("numpy")})
    from grads.verification.reference import search

    calls["PyTorch"] = lambda: search.beam_search(peer, *sources, beam, steps, beam)
    if isinstance(model, Transformer) and (device.name, dtype) == ("cpu", "float32"):
        calls |= by_ctranslate2(model, on_host, steps, words, beam)
    return calls


def by_ctranslate2(
    model: Transformer, parameters: dict[str, Any], steps: int, words: list[list[int]], beam: int
) -> Searches:
    """CTranslate2's search with the exported model; none without the package."""
    if find_spec("ctranslate2") is None:
        return {}
    import ctranslate2

    from nmt.export.ctranslate2 import export

    known = Vocabulary(f"w{number}" for number in range(2, len(parameters["output.W_hy"])))
    recipe = Recipe(DataConfig(corpus="reverse"), model.config)
    system = System(recipe, {"source": known, "target": known}, model, parameters)
    with TemporaryDirectory() as directory:
        export(system, Path(directory))
        engine = ctranslate2.Translator(directory, intra_threads=blas_threads())
    sentences = [[known.words[number] for number in sentence] for sentence in words]

    def find() -> Any:
        results = engine.translate_batch(
            sentences, beam_size=beam, num_hypotheses=beam, length_penalty=0, return_scores=True,
            min_decoding_length=steps, max_decoding_length=steps)
        return [[Hypothesis(known.ids(hypothesis), score, score, None, finished=False)
                 for hypothesis, score in zip(result.hypotheses, result.scores, strict=True)]
                for result in results]
    return {"CTranslate2": find}


def chart(record: Record) -> Chart:
    """Sentences/s by the number of sentences searched at once, with a panel for each beam."""
    panels = nested((row["case"], name, row["sizes"]["sentences"],
                     tuple(row["amount"] / timing[key] for key in ("median", "high", "low")))
                    for row, name, timing in timings(record))
    return Chart(f"Search: sentences a second, {record['rows'][0]['sizes']['steps']} words each",
                 "further up is faster; the band holds the middle half of the measurements. More "
                 "sentences at once share the matrix products.",
                 [Panel("lines", series, "sentences at once", "sentences/s", name, log=True)
                  for name, series in panels.items()])


def sparse_cases(options: argparse.Namespace) -> Iterator[Case]:
    """Every percentage pruned, with every beam and number of sentences."""
    model, parameters = make_models(options)[""]
    for percent, beam, sentences in product(options.percents, options.beams, options.sentences):
        kept = masks(parameters, classes(model.weights()), percent, "class-uniform")
        pruned = {name: np.where(kept[name], array, 0) if name in kept else array
                  for name, array in parameters.items()}
        make = partial(sparse_and_dense, model, pruned, options.steps)
        yield search_case(f"{percent} % pruned", beam, sentences, make, options, ("float64",))


def sparse_and_dense(
    model: Translator, parameters: Parameters, steps: int, device: Device, dtype: str,
    words: list[list[int]], beam: int,
) -> Searches:
    """Search with sparse products (the decoder's layers, W_c, the prediction) and dense ones."""
    sources, options = make_sources(words, reverse=False), how(beam, steps)
    dense = {name: array.astype(dtype) for name, array in parameters.items()}
    sparse = sparse_parameters(model.weights(), dense, share=1.0)
    return {"sparse": partial(beam_search, model, sparse, sources, options),
            "dense": partial(beam_search, model, dense, sources, options)}


def sparse_chart(record: Record) -> Chart:
    """The speed-up by sparse products against the percentage pruned."""
    series = nested((f"beam {row['sizes']['beam']}, sentences {row['sizes']['sentences']}",
                     float(row["case"].split()[0]), 1 / ratios(row)["dense"])
                    for row in record["rows"])
    return Chart("Search with a pruned model: sparse products against dense ones",
                 "above the line at 1 sparse products are faster.",
                 [Panel("lines", series, "percent of the weights pruned",
                        "dense time / sparse time", line_at_1=True)])


BENCHMARKS = {
    "search": Benchmark(cases, SIZES, QUICK, gpu=True, chart=chart),
    "sparse": Benchmark(
        sparse_cases, SIZES | {"sentences": [1, 16], "percents": [50, 80, 90, 95, 98]},
        QUICK | {"layers": 1, "source": 4, "steps": 4, "percents": [80], "sentences": [2]},
        needs=("scipy",), chart=sparse_chart),
}
