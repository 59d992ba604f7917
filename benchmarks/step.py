"""One training step, ours against eager PyTorch: forward, backward, clip, SGD update.

The model is a small one of the thesis's section 4.3: two LSTM layers, global `general` attention or
another variant, input feeding, sentences of one length. `--variants` runs all variants except the
renormalised Gaussian of local-p, RNNsearch (Bahdanau et al., 2015) and a Transformer of four heads
and as many layers a side, both of the same width. Losses, gradients and updated parameters must
agree in float64 before float32 is timed on all cores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from backend.command import natural, positive
from backend.errors import UserError
from backend.files import write_text
from benchmarks.cases import Case, random_batch
from benchmarks.implementations import Difference, furthest
from benchmarks.options import make_parser
from benchmarks.options import parse as read_options
from benchmarks.paired import timed
from benchmarks.pictures import bars, draw, titled
from benchmarks.record import publish
from benchmarks.timing import Timing, describe, environment
from benchmarks.training_step import (
    CLOSE,
    EXACT,
    Step,
    expect_equal,
    gradient_difference,
    loss_difference,
    our_step,
    random_parameters,
    their_step,
)
from nmt.models.registry import make_model
from nmt.models.rnnsearch import RNNSearchConfig
from nmt.models.transformer import TransformerConfig
from nmt.models.translator import CHOICES, ModelConfig
from nmt.training.options import TrainOptions

Config = ModelConfig | RNNSearchConfig | TransformerConfig

SIZES = {"hidden": 512, "layers": 2, "batch": 64, "source": 20, "target": 20, "vocabulary": 10000}
LEARNING_RATE, MAX_NORM = 0.1, 5.0  # of the normalised gradient (thesis, 4.3.1)
# PyTorch adds 1e-6 to the norm that it clips by, and its updates are smaller by that.
TOLERANCES = {"loss": EXACT, "gradients": EXACT, "updates": EXACT + 1e-6 / MAX_NORM}
SMALLER = 4  # `--variants` compares in float64 with a quarter of the units, sentences and words
SCORES = {  # windows and scores of the table, in its order
    "global": ("dot", "general", "concat", "concat, identity", "location", "additive"),
    "local-m": ("dot", "general", "concat", "concat, identity", "additive"),
    "local-p": ("dot", "general", "concat", "concat, identity", "additive"),
}
QUICK = {"hidden": 8, "layers": 1, "batch": 4, "source": 6, "target": 4, "vocabulary": 12,
         "window": 1}


def main(arguments: list[str]) -> None:
    """Compare, print, and write a file of results, or the row of each variant into one file."""
    options = parse(arguments)
    if find_spec("torch") is None:
        raise UserError("step: PyTorch is not installed; install the extra `oracle` to compare")
    if options.variants is not None:
        return run_variants(options)
    case = case_of(one_variant(options), options)
    equality = compare(case, options.seed)
    print("equal: " + ", ".join(f"{name} to {value:.1e}" for name, value in equality.items()))
    found = environment()
    print(describe(found))
    timings = timed(make_steps(case, options.seed), 3 * options.seconds)
    report(options, timings)
    save(options, found, equality, timings)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = make_parser("step", __doc__, 12.0)
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"default {default}")
    parser.add_argument("--attention", default="global", help="or local-m, local-p, none")
    parser.add_argument("--score", default="general", choices=CHOICES, help="default general")
    parser.add_argument("--window", type=positive, default=10,
                        help="D of local attention, default 10")
    parser.add_argument("--no-feeding", action="store_true", help="without input feeding")
    parser.add_argument(
        "--variants", nargs="*", metavar="WORDS",
        help="every attention variant, with and without feeding, RNNsearch, a Transformer, or "
             "those with such words in their names; "
             "one row each in results/variants-<kernels>.json")
    parser.add_argument("--seed", type=natural, default=1,
                        help="of parameters and words, default 1")
    options = read_options(parser, arguments, free=("attention", "score", "no_feeding", "variants"))
    if options.quick:
        vars(options).update(QUICK)
    return options


def case_of(config: Config, options: argparse.Namespace, smaller: int = 1) -> Case:
    """The step of the options, or one with a fraction of its sentences and words."""
    V, B = max(3, options.vocabulary // smaller), max(1, options.batch // smaller)
    train = TrainOptions(batch_size=B, learning_rate=LEARNING_RATE, max_norm=MAX_NORM)
    return Case(config, train, True, V, V, options.source, options.target)


def one_variant(options: argparse.Namespace) -> ModelConfig:
    """The translator of the options."""
    return make_config(options, attention=options.attention, score=options.score,
                       input_feeding=not options.no_feeding)


def make_config(options: argparse.Namespace, smaller: int = 1, **variant: Any) -> ModelConfig:
    """A translator of the options' sizes, or with a fraction of its units."""
    width = max(1, options.hidden // smaller)
    return ModelConfig(layers=options.layers, hidden_size=width, embedding_size=width,
                       window=options.window, **variant)


# --- both steps -----------------------------------------------------------------------------------


def make_steps(case: Case, seed: int) -> dict[str, Step]:
    """Both steps in float32. Raises AssertionError if their losses differ."""
    import torch

    torch.set_num_threads(environment()["cores"])
    rng = np.random.default_rng(seed)
    model: Any = make_model(case.model, case.tables)
    parameters, batch = model.initial_parameters(rng), random_batch(case, rng)
    peer = peer_of(model, parameters)
    loss = loss_difference(model, parameters, peer, batch)
    expect_equal({"float32 loss": Difference(loss, "the loss")}, {"float32 loss": CLOSE})
    return {"ours": our_step(model, parameters, batch, case.train),
            "pytorch": their_step(peer, batch, case.train)}


def compare(case: Case, seed: int) -> dict[str, float]:
    """The differences of loss, gradients and one update in float64.

    Raises AssertionError, naming the tensor that differs most, if they are too large.
    """
    rng = np.random.default_rng(seed)
    model: Any = make_model(case.model, case.tables)
    parameters, batch = random_parameters(model, rng), random_batch(case, rng)
    peer = peer_of(model, parameters)
    loss = loss_difference(model, parameters, peer, batch)
    found = {"loss": Difference(loss, "the loss"),
             "gradients": gradient_difference(model, parameters, peer, batch)}
    copies = {name: array.copy() for name, array in parameters.items()}
    our_step(model, copies, batch, case.train)()
    their_step(peer, batch, case.train)()
    moved = ({name: after[name] - array for name, array in parameters.items()}
             for after in (copies, peer.values()))
    found["updates"] = furthest(*moved)
    expect_equal(found, TOLERANCES)
    return {kind: difference.size for kind, difference in found.items()}


def peer_of(model: Any, parameters: Mapping[str, np.ndarray]) -> Any:
    """The model in PyTorch, which is imported here only."""
    from benchmarks.peer import Peer

    return Peer(model, parameters)


# --- all of them ----------------------------------------------------------------------------------


def variants(options: argparse.Namespace, smaller: int = 1) -> dict[str, Config]:
    """The configurations of the table, by name."""
    found: dict[str, Config] = {
        "no attention": make_config(options, smaller, attention="none", input_feeding=False)}
    for attention, scores in SCORES.items():
        for score in scores:
            variant = {"attention": attention, "score": score.split(",")[0],
                       "concat_identity": "identity" in score}
            for feeding in (True, False):
                name = f"{attention} {score}, {'' if feeding else 'no '}feeding"
                found[name] = make_config(options, smaller, input_feeding=feeding, **variant)
    width = max(2, options.hidden // smaller)
    found["RNNsearch"] = RNNSearchConfig(hidden_size=width, embedding_size=width,
                                         layer_size=width // 2)
    width = 4 * max(1, width // 4)  # four heads, and the inner layer as wide as usual
    found["Transformer"] = TransformerConfig(options.layers, options.layers, width, 4 * width,
                                             dropout=0.0)
    return found


def run_variants(options: argparse.Namespace) -> None:
    """Measure the rows of the table one by one; each is stored at once."""
    wanted = options.variants or [""]
    chosen = [name for name in variants(options) if any(words in name for words in wanted)]
    if not chosen:
        raise UserError(f"--variants: expected words of one of {'; '.join(variants(options))}; "
                        f"got {' '.join(wanted)!r}")
    found = environment()
    print(f"{describe(found)}\ntraining step, float32, cpu: "
          + ", ".join(f"{name} {getattr(options, name)}" for name in (*SIZES, "window")))
    print(f"{'variant':36}{'ours, ms (quartiles)':>24}{'PyTorch':>24}{'ratio':>7}{'equal to':>10}")
    for name in chosen:
        few = case_of(variants(options, SMALLER)[name], options, SMALLER)
        equality = compare(few, options.seed)
        steps = make_steps(case_of(variants(options)[name], options), options.seed)
        timings = timed(steps, options.seconds)
        row = result(equality, timings)
        spreads = [f"{1e3 * timing.median:.1f} ({1e3 * timing.low:.0f}-{1e3 * timing.high:.0f})"
                   for timing in (timings["ours"], timings["pytorch"])]
        print(f"{name:36}{spreads[0]:>24}{spreads[1]:>24}{row['ratio']:7.2f}"
              f"{max(equality.values()):10.0e}", flush=True)
        path = add_row(options, found, name, row)
    record = json.loads(path.read_text(encoding="utf-8"))
    draw(path.with_suffix(".png"), partial(picture_of_variants, record=record))


def add_row(
    options: argparse.Namespace, found: dict[str, Any], name: str, row: dict[str, Any]
) -> Path:
    """Put a row into `variants-<kernels>.json`, its path; rows of other sizes there are dropped."""
    path = options.output / f"variants-{found['kernels']}.json"
    sizes = {size: getattr(options, size) for size in (*SIZES, "window", "seed")}
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = before.get("rows", {}) if before.get("sizes") == sizes else {}
    rows[name] = row
    rows = {name: rows[name] for name in variants(options) if name in rows}
    write(path, {"sizes": sizes, "environment": found, "rows": rows})
    return path


def picture_of_variants(plt: Any, record: dict[str, Any]) -> Any:
    """A pair of bars for each variant."""
    rows = {f"{name}  ({row['ratio']:.2f})": row["seconds"]
            for name, row in record["rows"].items()}
    figure = bars(plt, rows)
    titled(figure, "A training step with every attention variant (in brackets: here / PyTorch)",
           record["environment"], "shorter bars are better; below 1 in brackets is faster here.")
    return figure


# --- results --------------------------------------------------------------------------------------


def report(options: argparse.Namespace, timings: dict[str, Timing]) -> None:
    """Print the medians, their spread and the ratio."""
    feeding = "without" if options.no_feeding else "with"
    print(
        f"training step, {options.layers}x{options.hidden}, {options.attention} attention, score "
        f"{options.score}, {feeding} input feeding, "
        f"B={options.batch}, S={options.source}, T={options.target}, V={options.vocabulary}, "
        "float32, cpu"
    )
    tokens = options.batch * options.target
    for name, timing in timings.items():
        print(f"{name:>8} {timing}{tokens / timing.median:10,.0f} target tokens/s")
    print(f"   ratio {timings['ours'].median / timings['pytorch'].median:8.2f} ours / PyTorch")


def result(equality: dict[str, float], timings: dict[str, Timing]) -> dict[str, Any]:
    """The results of one model, for JSON."""
    return {
        "differences": equality,
        "seconds": {name: timing._asdict() for name, timing in timings.items()},
        "ratio": timings["ours"].median / timings["pytorch"].median,
    }


def save(
    options: argparse.Namespace,
    found: dict[str, Any],
    equality: dict[str, float],
    timings: dict[str, Timing],
) -> None:
    """Write `step[-<attention>-<score>][-no-feeding]-<kernels>.json` and draw its picture."""
    variant = options.attention, options.score
    kind = "step" if variant == ("global", "general") else f"step-{'-'.join(variant)}"
    kind += "-no-feeding" * options.no_feeding
    left_out = "variants", "output"
    chosen = {name: value for name, value in vars(options).items() if name not in left_out}
    path = options.output / f"{kind}-{found['kernels']}.json"
    made = {"options": chosen, "environment": found, **result(equality, timings)}
    publish(path, made, picture)


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """A bar for each implementation of one step."""
    options = record["options"]
    feeding = "without input feeding" if options["no_feeding"] else "with input feeding"
    kind = f"{options.get('attention', 'global')} {options.get('score', 'general')}"
    figure = bars(plt, {f"{kind},\n{feeding}": record["seconds"]})
    titled(figure, "A training step of a translator: forward, backward, clip, update",
           record["environment"], "shorter bars are better.")
    return figure


def write(path: Path, record: dict[str, Any]) -> None:
    """A file of results."""
    write_text(path, json.dumps(record, indent=2) + "\n")
