"""A rank of `python -m benchmarks ranks`: it times updates and sums of flat arrays.

The update is the trainer's: passes over this rank's share, sums over the ranks, the optimizer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import stopped
from benchmarks.training import Workload, random_batch
from nmt.console.terminal import print
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig
from nmt.training.optimizers import SGD, gradient_scale
from nmt.training.options import TrainOptions
from nmt.training.passes import Sums, sums_of
from nmt.training.world import Ranks, Transport, World


def make_model(sizes: dict[str, int]) -> Translator:
    """A translator with input feeding and global attention, as in the thesis."""
    return Translator(ModelConfig(layers=sizes["layers"], hidden_size=sizes["hidden"],
                                  embedding_size=sizes["hidden"], dropout=0.0),
                      sizes["vocabulary"], sizes["vocabulary"], True)


def time_update(
    world: World, sizes: dict[str, int], batch: int, repeats: int
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of passes, sums and the optimizer in each update, by the clock and by this rank's
    processor time."""
    model, optimizer = make_model(sizes), SGD(0.01)
    V, length = sizes["vocabulary"], sizes["length"]
    work = Workload(model.config, TrainOptions(batch_size=batch), True, V, V, length, length + 1)
    batch_of_all, times = random_batch(work, np.random.default_rng(0)), dict[str, list[Any]]()
    parameters = model.initial_parameters(np.random.default_rng(1))
    share, results = world.share(batch_of_all), dict[str, Any]()

    def timed(name: str, work: Callable[[], Any]) -> None:
        world.wait()  # so that the time of the sums is not that of waiting for the slowest
        before = time.process_time()
        wall = stopped(lambda: results.update({name: work()}))
        times.setdefault(name, []).append((wall, time.process_time() - before))

    def passes() -> Sums | None:
        if share is None:
            return None
        loss, cache = model.loss(parameters, share)
        return sums_of(loss, cache, model.backward(cache))

    def update() -> None:
        gradients = results.pop("sums").gradients
        optimizer.update(parameters, gradients, gradient_scale(gradients, batch, 5.0)[0])

    for _ in range(repeats + 1):
        timed("passes", passes)
        timed("sums", lambda: world.sum(results["passes"], parameters))
        timed("update", update)
    return {name: seconds[1:] for name, seconds in times.items()}


def time_sums(
    world: World, transport: Transport, lengths: list[int], repeats: int
) -> list[float]:
    """Median seconds to sum flat float32 arrays over the ranks as the trainer does, for each length
    in bytes."""
    def median(array: np.ndarray) -> float:
        seconds = []
        for _ in range(repeats + 1):
            world.wait()
            seconds.append(stopped(lambda: transport.sum(array)))
        return float(np.median(seconds[1:]))

    return [median(np.zeros(max(1, length // 4), np.float32)) for length in lengths]


def main() -> None:
    """Arguments: JSON with sizes, batch, repeats, threads, lengths; the first rank prints JSON."""
    from mpi4py import MPI

    from nmt.training.transport import Mpi

    asked = json.loads(sys.argv[1])
    transport = Mpi(MPI.COMM_WORLD)
    world = Ranks(transport) if transport.size > 1 else World()
    with threadpool_limits(asked["threads"], user_api="blas"):
        seconds = time_update(world, asked["sizes"], asked["batch"], asked["repeats"])
        sent_bytes = getattr(world, "bytes", 0) // (asked["repeats"] + 1)  # in each update
        sums = (time_sums(world, transport, asked["lengths"], asked["repeats"])
                if world.size > 1 else [])
    if world.first:
        wall, cpu = ({name: float(np.median([pair[k] for pair in pairs]))
                      for name, pairs in seconds.items()} for k in (0, 1))
        print(json.dumps({"parts": wall, "cpu": cpu, "bytes": sent_bytes, "sums": sums}))


if __name__ == "__main__":
    main()
