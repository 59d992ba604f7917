"""Several ranks: their sums are those of one process, and an error in one rank ends all."""

from __future__ import annotations

import signal
import sys
import threading
import time

import numpy as np
import pytest
from ranks import WHY_NOT, launch
from strict.module import strict, to_numpy, to_strict
from tiny_run import ROOT, write_corpus, write_recipe

import backend
from backend.rows import RowGradient, row_index, sum_rows
from grads.verification.catalogue import architectures
from nmt.training.passes import Sums
from nmt.training.transport import Nccl
from nmt.training.world import Ranks

WORKER = ROOT / "tests" / "rank_worker.py"
TRAIN = (sys.executable, "-m", "nmt", "train")
needs_mpi = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_ranks_train_as_one_process(tmp_path, size) -> None:
    """`tests/rank_worker.py`: every architecture, clipping, streams, tasks, exact resume."""
    ranks = launch("-n", size, sys.executable, "-m", "mpi4py", WORKER, tmp_path)
    out, err = ranks.communicate(timeout=300)
    assert (ranks.returncode, out) == (
        0, f"{len(architectures())} architectures, {size} ranks\n"), err


def lines(err: str) -> list[str]:
    """Our command's lines on stderr, without the line that MPICH adds."""
    return [line for line in err.splitlines() if line.startswith("nmt")]


@needs_mpi
def test_what_ends_one_rank_ends_all(tmp_path) -> None:
    """The second rank has no recipe: the first, which is training, ends too."""
    write_corpus(tmp_path)
    recipe = write_recipe(tmp_path / "r.yaml", train={"epochs": 5000})
    ranks = launch("-n", 1, *TRAIN, recipe, "--output", tmp_path / "run",
                   ":", "-n", 1, *TRAIN, tmp_path / "none.yaml")
    _, err = ranks.communicate(timeout=120)
    assert lines(err) == [f"nmt: rank 1: {tmp_path / 'none.yaml'}: cannot be read: No such file or "
                          "directory"]
    assert ranks.returncode == 2


@needs_mpi
def test_ctrl_c_stops_all_ranks_and_they_go_on_together(tmp_path) -> None:
    write_corpus(tmp_path)
    recipe, run = write_recipe(tmp_path / "r.yaml", train={"epochs": 5000}), tmp_path / "run"
    ranks = launch("-n", 2, *TRAIN, recipe, "--output", run)
    deadline = time.monotonic() + 120
    while not (run / "best.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    ranks.send_signal(signal.SIGINT)
    _, err = ranks.communicate(timeout=120)
    (line,) = lines(err)
    assert line.startswith("nmt: stopped after update ") and ranks.returncode == 130
    step = int(line.split()[4].rstrip(";"))
    again = launch("-n", 2, *TRAIN, "--resume", run, "--train.epochs",
                   step // 10 + 1)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0 and out.count("run directory:") == 1, err


# --- without MPI ----------------------------------------------------------------------------------


class Threads:
    """A stand-in for a communicator and for NCCL, between threads of this process."""

    def __init__(self, size: int) -> None:
        self.size, self._barrier, self._slots = size, threading.Barrier(size), [None] * size

    def of(self, rank: int) -> Thread:
        return Thread(self, rank)

    def exchange(self, rank: int, value):
        self._slots[rank] = value
        self._barrier.wait(20)
        values = list(self._slots)
        self._barrier.wait(20)
        return values


class Thread:
    def __init__(self, threads: Threads, rank: int) -> None:
        self._all, self._rank = threads, rank

    def Get_rank(self):
        return self._rank

    def Get_size(self):
        return self._all.size

    def allgather(self, value):
        return self._all.exchange(self._rank, value)

    def Allgather(self, array, every):
        every[...] = self.allgather(array.copy())

    def all_reduce(self, array, out):
        parts = self.allgather(array.copy())
        out[...] = sum(parts[1:], parts[0])

    def all_gather(self, array, every, count):
        assert array.size == count and every.size == count * self._all.size
        for place, piece in enumerate(self.allgather(array.copy())):
            every[place] = piece


def on_each_rank(size, work):
    """What `work(rank, Ranks)` returns in a thread for each rank."""
    world, results, errors = Threads(size), [None] * size, []

    def run(rank):
        try:
            results[rank] = work(rank, Ranks(Nccl(world.of(rank), world.of(rank))))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors, errors
    return results


@pytest.fixture(params=["numpy", "stand-in"])
def moved(request):
    """Run with arrays moved to the module in use, and move the results back."""
    if request.param == "numpy":
        yield lambda array: array, np.asarray
        return
    strict.install()
    with backend.using(strict):
        yield to_strict, to_numpy


def test_dense_rows_and_nothing_are_added(moved) -> None:
    """Rank 0 has all, rank 1 a dense gradient of the table `mixed`, rank 2 no sentence."""
    there, back = moved
    rng = np.random.default_rng(0)
    drawn = {name: rng.normal(size=(2, *shape)) for name, shape in
             {"W": (3, 4), "b": (2,), "mixed": (6, 2), "table": (6, 2), "none": (3,)}.items()}
    parameters = {name: there(array[0].copy()) for name, array in drawn.items()}
    ids = [np.array([4, 1, 4]), np.array([1, 5])]

    def rows(rank, name):
        values = drawn[name][0][: len(ids[rank])] * (rank + 1)
        return sum_rows(there(values), row_index(ids[rank]), 6)

    def work(rank, world):
        sums = None if rank == 2 else Sums(there(np.array(1.5)), there(np.array(rank + 0.5)), {
            "W": there(drawn["W"][rank].copy()), "table": rows(rank, "table"),
            "mixed": rows(0, "mixed") if rank == 0 else there(drawn["mixed"][1].copy()),
            **({"b": there(drawn["b"][0].copy())} if rank == 0 else {})},
            there(np.array(0.25)))
        return world.sum(sums, parameters)

    for sums in on_each_rank(3, work):
        assert list(sums.gradients) == ["W", "b", "mixed", "table"]
        table = sums.gradients["table"]
        assert isinstance(table, RowGradient) and back(table.ids).tolist() == [1, 4, 5]
        x = drawn["table"][0]
        np.testing.assert_array_equal(back(table.values), [x[1] + 2 * x[0], x[0] + x[2], 2 * x[1]])
        np.testing.assert_array_equal(back(sums.gradients["W"]), drawn["W"][0] + drawn["W"][1])
        np.testing.assert_array_equal(back(sums.gradients["b"]), drawn["b"][0])
        m = drawn["mixed"][0]
        want = drawn["mixed"][1].copy()
        want[1] += m[1]
        want[4] += m[0] + m[2]
        np.testing.assert_allclose(back(sums.gradients["mixed"]), want, rtol=1e-15)
        assert (float(back(sums.loss)), float(back(sums.word_loss))) == (3.0, 2.0)
        assert float(back(sums.length_loss)) == 0.5
