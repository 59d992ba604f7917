"""Target tokens/s of a training step of the recipes, with the time split by part.

Each recipe keeps its model, optimizer, dropout and batch size; words are random, sentences of one
length, so that no corpus is needed. A step is the trainer's: forward, backward, clip, update. The
peer is eager PyTorch. Loss and gradients, with the same dropout masks in both, are compared in
float64 before anything is timed. `thesis-size` (4 layers, 1000 units, 50,000 words, batch 128, no
dropout) runs only when named: minutes on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

import backend
from backend.command import natural, positive
from benchmarks.cases import KNOWN, LARGE, Case, load_case, random_batch, short
from benchmarks.devices import Device, device_option, devices
from benchmarks.implementations import Difference
from benchmarks.options import make_parser, not_whole
from benchmarks.options import parse as read_options
from benchmarks.paired import timed
from benchmarks.parts import PARTS, Stopwatch, watching
from benchmarks.pictures import HATCHES, titled
from benchmarks.record import RESULTS, publish_rows
from benchmarks.timing import Timing, describe, environment, interleave
from benchmarks.training_step import (
    CLOSE,
    EXACT,
    expect_equal,
    gradient_difference,
    loss_difference,
    on_host,
    our_step,
    random_parameters,
    their_step,
)
from nmt.data.batches import Batch
from nmt.models.registry import make_model
from nmt.training.options import TrainOptions


def main(arguments: list[str]) -> None:
    """Compare, print, and write `recipes[-large]-<kernels>.json`, -gpu for what ran on a GPU."""
    options = parse(arguments)
    print(describe(environment()))
    for device in devices(options.device, options.gemm):
        rows = [run(name, options, device) for name in options.recipe]
        record = "recipes-large" if set(options.recipe) <= set(LARGE) else "recipes"
        record += "" if options.gemm == "float32" else f"-{options.gemm}"
        asked = vars(options) | {"recipe": [short(name) for name in options.recipe]}
        publish_rows(record, asked, rows, picture, directory=options.output,
                     gpu=device.name == "gpu")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = make_parser("recipes", __doc__)
    small = [name for name in KNOWN if name not in LARGE]
    parser.add_argument("--recipe", nargs="+", default=small, metavar="NAME",
                        help=f"of {', '.join(KNOWN)}, or a YAML file (default the small ones)")
    parser.add_argument("--vocabulary", type=positive, default=10000,
                        help="words of each vocabulary, for a file default 10000")
    parser.add_argument("--length", type=positive, default=20,
                        help="words of a sentence, for a file default 20")
    parser.add_argument("--seed", type=natural, default=1, help="of parameters and ids, default 1")
    device_option(parser)
    options = read_options(parser, arguments, free=("recipe",))
    if options.output == RESULTS and options.recipe not in (small, list(LARGE)):
        raise not_whole("recipe")
    return options


# --- one recipe on one device -------------------------------------------------------------------


def run(name: str, options: argparse.Namespace, device: Device) -> dict[str, Any]:
    """Compare, time and print one recipe; the row of the record."""
    case = load_case(name, options)
    with backend.using(device.backend):
        rng = np.random.default_rng(options.seed)
        model = make_model(case.model, case.tables)
        parameters, batch = model.initial_parameters(rng), random_batch(case, rng)
        peer = peer_on(device, model, parameters)
        differences = compare(model, parameters, batch, peer, case)
        train, iterations_by_part = case.train, list[dict[str, float]]()
        steps = {
            "ours": our_step(model, parameters, batch, train),
            "split": split_step(model, parameters, batch, train, device, iterations_by_part),
        }
        if peer is not None:
            steps["pytorch"] = their_step(peer, batch, train)
        waited = {key: device.finished(step) for key, step in steps.items()}
        if name in LARGE and device.name == "cpu" and not options.quick:
            timings = interleave(waited, 2, 0)  # each takes a minute; the comparison warms up
        else:
            timings = timed(waited, 0.01 if options.quick else 3 * options.seconds)
            del iterations_by_part[0]  # of the warm-up
    row = make_row(name, device, batch, timings, medians(iterations_by_part), differences)
    report(row, case)
    return row


def make_row(
    name: str, device: Device, batch: Batch, timings: Mapping[str, Timing],
    parts: Mapping[str, float], differences: Mapping[str, float],
) -> dict[str, Any]:
    """What the record holds of one recipe: seconds of a step, tokens/s, seconds by part."""
    tokens = int(batch.target.lengths.sum())
    row = {
        "recipe": short(name), "device": device.name, "target_tokens": tokens,
        "seconds": {key: timing._asdict() for key, timing in timings.items()},
        "tokens_per_second": {key: tokens / timing.median for key, timing in timings.items()
                             if key != "split"},
        "parts": dict(parts), "differences": dict(differences),
    }
    if "pytorch" in timings:
        row["ratio"] = timings["ours"].median / timings["pytorch"].median
    return row


def split_step(
    model: Any, parameters: dict[str, Any], batch: Batch, train: TrainOptions,
    device: Device, found: list[dict[str, float]],
) -> Callable[[], float]:
    """A training step whose seconds by part are appended to `found`, a mapping for each step."""
    watch = Stopwatch(device.synchronise)
    step = our_step(model, parameters, batch, train, watch)

    def split() -> float:
        with watching(watch):
            loss = step()
        found.append(dict(watch.seconds))
        watch.seconds.clear()
        return loss

    return split


def medians(iterations: list[dict[str, float]]) -> dict[str, float]:
    """The median seconds of each part that took any, in the order of `PARTS`."""
    found = {part: float(np.median([seconds.get(part, 0.0) for seconds in iterations]))
             for part in PARTS}
    return {part: seconds for part, seconds in found.items() if seconds}


# --- PyTorch ------------------------------------------------------------------------------------


def peer_on(device: Device, model: Any, parameters: dict[str, Any]) -> Any:
    """The same model in PyTorch, on the same device; None without PyTorch."""
    if device.torch is None:
        return None
    import torch

    from benchmarks.peer import Peer

    if device.torch == "cpu":
        torch.set_num_threads(environment()["cores"])
    return Peer(model, on_host(parameters), device.torch)


# --- equality first -----------------------------------------------------------------------------


def compare(
    model: Any, parameters: dict[str, Any], batch: Batch, peer: Any, case: Case
) -> dict[str, float]:
    """Relative differences of loss and gradients. Raises AssertionError if they are too large.

    In float64, on a few sentences and words, loss and gradients; in float32 the loss of the timed
    step, if there is a peer. An empty mapping without PyTorch.
    """
    if find_spec("torch") is None:
        return {}
    found = compare_exactly(case)
    if peer is not None:
        noise = model.noise(batch, np.random.default_rng(7), "float32")
        loss = loss_difference(model, parameters, peer, batch, noise)
        found["float32 loss"] = Difference(loss, "the loss")
    expect_equal(found, {"loss": EXACT, "gradients": EXACT, "float32 loss": CLOSE})
    return {kind: difference.size for kind, difference in found.items()}


def compare_exactly(case: Case) -> dict[str, Difference]:
    """Loss and gradients of the recipe's model in float64, over two sentences of few words."""
    from benchmarks.peer import Peer

    few = case._replace(source_size=50, target_size=51)
    with backend.using("numpy"):
        rng = np.random.default_rng(7)
        model: Any = make_model(few.model, few.tables)
        parameters = random_parameters(model, rng)
        batch = random_batch(few, rng, sentences=2)
        noise = model.noise(batch, rng, "float64")
        peer = Peer(model, parameters)
        loss = loss_difference(model, parameters, peer, batch, noise)
        return {"loss": Difference(loss, "the loss"),
                "gradients": gradient_difference(model, parameters, peer, batch, noise)}


# --- results ------------------------------------------------------------------------------------


def report(row: Mapping[str, Any], case: Case) -> None:
    """Print one row."""
    train, seconds = case.train, row["seconds"]
    print(f"\n{row['recipe']}, {row['device']}: B={train.batch_size}, S={case.source}, "
          f"T={case.target}, V={case.source_size} and {case.target_size}, float32, "
          f"{train.optimizer}")
    equal = ", ".join(f"{name} to {value:.1e}" for name, value in row["differences"].items())
    print(f"  equal: {equal or 'not compared, PyTorch is absent'}")
    for name in seconds:
        speed = row["tokens_per_second"].get(name)
        print(f"  {name:>8} {Timing(**seconds[name])}"
              + (f"{speed:12,.0f} target tokens/s" if speed else ""))
    if "ratio" in row:
        print(f"     ratio {row['ratio']:8.2f} ours / PyTorch")
    else:
        print("  PyTorch: not run")
    total = sum(row["parts"].values())
    for part, spent in row["parts"].items():
        print(f"  {part:>20} {1e3 * spent:9.1f} ms {100 * spent / total:5.1f} %")
    print(f"  {'sum':>20} {1e3 * total:9.1f} ms, {total / seconds['ours']['median']:.2f} of the "
          "median step timed as a whole")


def picture(plt: Any, record: Mapping[str, Any]) -> Any:
    """A bar for each recipe, cut into the parts of its step."""
    rows, colours = record["rows"][::-1], plt.get_cmap("tab20")
    figure, axes = plt.subplots(figsize=(9, 2.2 + 0.5 * len(rows)), layout="constrained")
    start = np.zeros(len(rows))
    for number, part in enumerate(PARTS):
        shares = np.array([row["parts"].get(part, 0.0) / sum(row["parts"].values())
                           for row in rows])
        if shares.any():
            axes.barh(range(len(rows)), shares, left=start, label=part, color=colours(number),
                      hatch=HATCHES[number % len(HATCHES)], edgecolor="white", linewidth=0)
        start += shares
    for place, row in enumerate(rows):
        axes.text(1.01, place, f"{row['tokens_per_second']['ours']:,.0f} target tokens/s",
                  va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [f"{row['recipe']},\non the {row['device'].upper()}"
                                       for row in rows])
    axes.set(xlabel="share of a training step", xlim=(0, 1))
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    titled(figure, "Where the time of a training step goes, by recipe", record["environment"],
           "a bar is one step, its pieces stand in the order of the legend's columns; on the "
           "right, how many target tokens are trained on in a second.")
    return figure
