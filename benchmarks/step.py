"""One training step, ours against eager PyTorch: forward, backward, clip, SGD update.

The model is that of the thesis's section 4.3 in small: two LSTM layers, global `general` attention
or any other way, input feeding, sentences of one length. `--variants` goes through all of them but
the renormalised Gaussian of local-p, and RNNsearch (Bahdanau et al., 2015). Losses, gradients and
updated parameters must agree in float64 before anything is timed (`benchmarks.training_step`);
timed is float32 on all cores.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from backend.errors import UserError
from backend.files import write_text
from benchmarks.options import make_parser
from benchmarks.options import parse as read_options
from benchmarks.paired import timed
from benchmarks.pictures import bars, draw, headline
from benchmarks.record import publish
from benchmarks.timing import Timing, describe, environment
from benchmarks.training_step import Config, Sizes, compare, make_implementations
from nmt.models.rnnsearch import RNNSearchConfig
from nmt.models.translator import CHOICES, ModelConfig

SIZES = {"hidden": 512, "layers": 2, "batch": 64, "source": 20, "target": 20, "vocabulary": 10000}
SMALLER = 4  # `--variants` compares in float64 with a quarter of the units, sentences and words
LOOKS = {  # windows and scores of the table, in its order
    "global": ("dot", "general", "concat", "concat, identity", "location", "additive"),
    "local-m": ("dot", "general", "concat", "concat, identity", "additive"),
    "local-p": ("dot", "general", "concat", "concat, identity", "additive"),
}
QUICK = {"hidden": 8, "layers": 1, "batch": 4, "source": 6, "target": 4, "vocabulary": 12,
         "window": 1}


def main(arguments: list[str]) -> None:
    """Compare, print, and write a file of results, or the row of each way into one file."""
    options = parse(arguments)
    if find_spec("torch") is None:
        raise UserError("step: PyTorch is not installed; install the extra `oracle` to compare")
    if options.variants is not None:
        return run_variants(options)
    config, sizes = one_variant(options), sizes_of(options)
    equality = compare(config, sizes, options.seed)
    print("equal: " + ", ".join(f"{name} to {value:.1e}" for name, value in equality.items()))
    found = environment()
    print(describe(found))
    implementations = make_implementations(config, sizes, options.seed)
    timings = timed(implementations, 3 * options.seconds)
    report(options, timings)
    save(options, found, equality, timings)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = make_parser("step", __doc__, 12.0)
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--attention", default="global", help="or local-m, local-p, none")
    parser.add_argument("--score", default="general", choices=CHOICES, help="default general")
    parser.add_argument("--window", type=int, default=10, help="D of local attention, default 10")
    parser.add_argument("--no-feeding", action="store_true", help="without input feeding")
    parser.add_argument(
        "--variants", nargs="*", metavar="WORDS",
        help="every way of attending, with and without feeding, and RNNsearch, or those with "
             "such words in their names; one row each in results/variants-<mode>.json")
    parser.add_argument("--seed", type=int, default=1, help="of parameters and words, default 1")
    options = read_options(parser, arguments, free=("attention", "score", "no_feeding", "variants"))
    if options.quick:
        vars(options).update(QUICK)
    return options


def sizes_of(options: argparse.Namespace, smaller: int = 1) -> Sizes:
    """The batch that the options describe, or one with a part of its sentences and words."""
    return Sizes(max(1, options.batch // smaller), options.source, options.target,
                 max(3, options.vocabulary // smaller))


def one_variant(options: argparse.Namespace) -> ModelConfig:
    """The translator that the options describe."""
    return make_config(options, attention=options.attention, score=options.score,
                       input_feeding=not options.no_feeding)


def make_config(options: argparse.Namespace, smaller: int = 1, **variant: Any) -> ModelConfig:
    """A translator of the options' sizes, or of a part of its units."""
    width = max(1, options.hidden // smaller)
    return ModelConfig(layers=options.layers, hidden_size=width, embedding_size=width,
                       window=options.window, **variant)


# --- all of them ----------------------------------------------------------------------------------


def variants(options: argparse.Namespace, smaller: int = 1) -> dict[str, Config]:
    """The configurations of the table, by name."""
    found: dict[str, Config] = {
        "no attention": make_config(options, smaller, attention="none", input_feeding=False)}
    for attention, scores in LOOKS.items():
        for score in scores:
            way = {"attention": attention, "score": score.split(",")[0],
                   "concat_identity": "identity" in score}
            for feeding in (True, False):
                name = f"{attention} {score}, {'' if feeding else 'no '}feeding"
                found[name] = make_config(options, smaller, input_feeding=feeding, **variant)
    width = max(2, options.hidden // smaller)
    found["RNNsearch"] = RNNSearchConfig(hidden_size=width, embedding_size=width,
                                         layer_size=width // 2)
    return found


def run_variants(options: argparse.Namespace) -> None:
    """One row of the table after the other; each is stored as soon as it is there."""
    wanted = options.variants or [""]
    chosen = [name for name in variants(options) if any(words in name for words in wanted)]
    if not chosen:
        raise UserError(f"--variants: expected words of one of {'; '.join(variants(options))}; "
                        f"got {' '.join(wanted)!r}")
    found = environment()
    print(f"{describe(found)}\ntraining step, float32, cpu: "
          + ", ".join(f"{name} {getattr(options, name)}" for name in (*SIZES, "window")))
    print(f"{'way':36}{'ours, ms (quartiles)':>24}{'PyTorch':>24}{'ratio':>7}{'equal to':>10}")
    for name in chosen:
        equality = compare(variants(options, SMALLER)[name], sizes_of(options, SMALLER), options.seed)
        implementations = make_implementations(variants(options)[name], sizes_of(options), options.seed)
        timings = timed(implementations, options.seconds)
        row = result(equality, timings)
        spreads = [f"{1e3 * timings[implementation].median:.1f} ({1e3 * timings[implementation].low:.0f}-"
                   f"{1e3 * timings[implementation].high:.0f})" for implementation in ("ours", "pytorch")]
        print(f"{name:36}{spreads[0]:>24}{spreads[1]:>24}{row['ratio']:7.2f}"
              f"{max(equality.values()):10.0e}", flush=True)
        path = add_row(options, found, name, row)
    draw(path.with_suffix(".png"), partial(picture_of_variants, record=json.loads(path.read_text())))


def add_row(
    options: argparse.Namespace, found: dict[str, Any], name: str, row: dict[str, Any]
) -> Path:
    """Put a row into `variants-<mode>.json`, its path; rows of other sizes there are dropped."""
    path = options.output / f"variants-{found['mode']}.json"
    sizes = {size: getattr(options, size) for size in (*SIZES, "window", "seed")}
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = before.get("rows", {}) if before.get("sizes") == sizes else {}
    rows[name] = row
    rows = {way: rows[way] for way in variants(options) if way in rows}
    write(path, {"sizes": sizes, "environment": found, "rows": rows})
    return path


def picture_of_variants(plt: Any, record: dict[str, Any]) -> Any:
    """A pair of bars for each way."""
    rows = {f"{name}  ({row['ratio']:.2f})": row["seconds"]
            for name, row in record["rows"].items()}
    title = f"A training step (ours / PyTorch). {headline(record['environment'])}"
    return bars(plt, rows, title)


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
    words = options.batch * options.target
    for name, timing in timings.items():
        print(f"{name:>8} {timing}{words / timing.median:10,.0f} target tokens/s")
    print(f"   ratio {timings['ours'].median / timings['pytorch'].median:8.2f} ours / PyTorch")


def result(equality: dict[str, float], timings: dict[str, Timing]) -> dict[str, Any]:
    """What was found of one model, for JSON."""
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
    """Write `step[-<attention>-<score>][-no-feeding]-<mode>.json` and draw its picture."""
    way = options.attention, options.score
    kind = "step" if way == ("global", "general") else f"step-{'-'.join(way)}"
    kind += "-no-feeding" * options.no_feeding
    left_out = "variants", "output"
    chosen = {name: value for name, value in vars(options).items() if name not in left_out}
    path = options.output / f"{kind}-{found['mode']}.json"
    made = {"options": chosen, "environment": found, **result(equality, timings)}
    feeding = "without feeding" if options.no_feeding else "input feeding"
    rows = {f"{options.attention} {options.score}, {feeding}": made["seconds"]}
    title = f"A training step. {headline(found)}"
    publish(path, made, lambda plt, _: bars(plt, rows, title))


def write(path: Path, record: dict[str, Any]) -> None:
    """A file of results."""
    write_text(path, json.dumps(record, indent=2) + "\n")
