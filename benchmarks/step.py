"""One training step, ours against eager PyTorch: forward, backward, clip, SGD update.

The model is that of the thesis's section 4.3 in small: two LSTM layers, global `general` attention
or any other way, input feeding, sentences of one length. Losses, gradients and updated parameters
must agree before anything is timed. Both sides run in float32 on all cores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError
from backend.rows import RowGradient
from benchmarks.timing import Timing, describe, environment, interleave
from nmt.models.config import CHOICES, ModelConfig
from nmt.models.translator import Translator
from nmt.text.batches import Batch, make_batch
from nmt.training.optimizers import SGD, gradient_scale

RESULTS = Path(__file__).parent / "results"
LEARNING_RATE = 0.1
MAX_NORM = 5.0  # of the gradient divided by the batch size (thesis, 4.3.1)
# Both sides add float32 numbers in their own order: 1e-3 is far above that and far below a mistake.
TOLERANCE = 1e-3

Step = Callable[[], float]


def main(arguments: list[str]) -> None:
    """Compare, print, and write `results/step[-<attention>-<score>][-no-feeding]-<mode>.json`."""
    options = parse(arguments)
    if find_spec("torch") is None:
        raise UserError("step: PyTorch is not installed; install the extra `oracle` to compare")
    model, batch = make_model(options), random_batch(options)
    parameters = model.initial_parameters(np.random.default_rng(options.seed))
    theirs, equality = compare(model, parameters, batch)
    rivals = {"ours": our_step(model, parameters, batch), "pytorch": theirs}
    found = environment()
    print(describe(found))
    timings = interleave(rivals, options.rounds, options.warm_up)
    report(options, timings)
    save(options, found, equality, timings)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks step", description=__doc__)
    sizes = {
        "hidden": 512,
        "layers": 2,
        "batch": 64,
        "source": 20,
        "target": 20,
        "vocabulary": 10000,
    }
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--attention", default="global", help="or local-m, local-p")
    parser.add_argument("--score", default="general", choices=CHOICES, help="default general")
    parser.add_argument("--window", type=int, default=10, help="D of local attention, default 10")
    parser.add_argument("--no-feeding", action="store_true", help="without input feeding")
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count, default 15")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds before them, default 3")
    parser.add_argument("--seed", type=int, default=1, help="of parameters and words, default 1")
    return parser.parse_args(arguments)


def make_model(options: argparse.Namespace) -> Translator:
    """The translator that the options describe."""
    config = ModelConfig(
        layers=options.layers,
        hidden_size=options.hidden,
        embedding_size=options.hidden,
        input_feeding=not options.no_feeding,
        attention=options.attention,
        score=options.score,
        window=options.window,
    )
    return Translator(config, options.vocabulary, options.vocabulary, reverse_source=True)


def random_batch(options: argparse.Namespace) -> Batch:
    """Random words; every sentence has `source` words, or `target` with its end marker."""
    rng = np.random.default_rng(options.seed)
    B, V = options.batch, options.vocabulary
    source = rng.integers(2, V, (B, options.source)).tolist()
    target = rng.integers(2, V, (B, options.target - 1)).tolist()
    return make_batch(list(zip(source, target, strict=True)), range(B), reverse_source=True)


# --- the two steps ----------------------------------------------------------------------------


def our_step(model: Translator, parameters: dict[str, Any], batch: Batch) -> Step:
    """One step of ours; returns the summed loss, fetched as a trainer would."""
    optimizer = SGD(LEARNING_RATE)

    def step() -> float:
        loss, cache = model.loss(parameters, batch)
        gradients = model.backward(cache)
        scale, _ = gradient_scale(gradients, len(batch.indices), MAX_NORM)
        optimizer.update(parameters, gradients, scale)
        return float(loss)

    return step


def their_step(peer: Any, batch: Batch) -> Step:
    """The same step in PyTorch, in its fastest eager form."""
    import torch

    weights = [parameter for parameter in peer.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(weights, LEARNING_RATE, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = peer(batch)
        (loss / len(batch.indices)).backward()
        torch.nn.utils.clip_grad_norm_(weights, MAX_NORM)
        optimizer.step()
        return loss.item()

    return step


# --- equality first ---------------------------------------------------------------------------


def compare(
    model: Translator, parameters: dict[str, Any], batch: Batch
) -> tuple[Step, dict[str, float]]:
    """Assert that loss, gradients and one update agree; PyTorch's step, and the differences."""
    import torch

    from benchmarks.peer_torch import TorchTranslator

    torch.set_num_threads(environment()["cores"])
    sizes = model.source_size, model.target_size
    peer = TorchTranslator(model.config, *sizes, reverse_source=True).load(parameters)
    loss, cache = model.loss(parameters, batch)
    gradients = model.backward(cache)
    peer_loss = peer(batch)
    peer_loss.backward()
    found = {
        "loss": abs(float(loss) - peer_loss.item()) / abs(peer_loss.item()),
        "gradients": furthest(gradients, peer.dump(gradients=True)),
    }
    copies = {name: array.copy() for name, array in parameters.items()}
    our_step(model, copies, batch)()
    step = their_step(peer, batch)
    step()
    moved = {name: copies[name] - array for name, array in parameters.items()}
    after = peer.dump(gradients=False)
    found["updates"] = furthest(moved, {name: after[name] - parameters[name] for name in after})
    for name, difference in found.items():
        if not difference < TOLERANCE:
            raise AssertionError(f"{name}: ours and PyTorch's differ by {difference:.1e}")
    print("equal: " + ", ".join(f"{name} to {value:.1e}" for name, value in found.items()))
    return step, found


def furthest(ours: dict[str, Any], theirs: dict[str, np.ndarray]) -> float:
    """The largest relative distance ||a - b|| / ||b|| over parameters.

    A score's gradients start as small differences of large numbers, whose digits float32 has not:
    what is a hundred times smaller than the largest is compared beside a hundredth of that.
    """
    assert ours.keys() == theirs.keys()
    floor = 0.01 * max(float(np.linalg.norm(b)) for b in theirs.values())
    distances = []
    for name, b in theirs.items():
        a = ours[name].dense() if isinstance(ours[name], RowGradient) else ours[name]
        distances.append(float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(b)), floor))
    return max(distances)


# --- results ----------------------------------------------------------------------------------


def report(options: argparse.Namespace, timings: dict[str, Timing]) -> None:
    """Print the medians, their spread and the ratio."""
    feeding = "without" if options.no_feeding else "with"
    print(
        f"training step, {options.layers}x{options.hidden}, {options.attention} attention, score "
        f"{options.score}, {feeding} input feeding, "
        f"B={options.batch}, S={options.source}, T={options.target}, V={options.vocabulary}, "
        f"float32, cpu, {options.rounds} rounds"
    )
    for name, timing in timings.items():
        print(f"{name:>8} {timing}")
    print(f"   ratio {timings['ours'].median / timings['pytorch'].median:8.2f} ours / PyTorch")


def save(
    options: argparse.Namespace,
    found: dict[str, Any],
    equality: dict[str, float],
    timings: dict[str, Timing],
) -> None:
    """Write the results as JSON, one file per mode."""
    RESULTS.mkdir(exist_ok=True)
    way = options.attention, options.score
    kind = "step" if way == ("global", "general") else f"step-{'-'.join(way)}"
    kind += "-no-feeding" * options.no_feeding
    record = {
        "options": vars(options),
        "environment": found,
        "differences": equality,
        "seconds": {name: timing._asdict() for name, timing in timings.items()},
        "ratio": timings["ours"].median / timings["pytorch"].median,
    }
    path = RESULTS / f"{kind}-{found['mode']}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
