"""The kinds of faults. Each function causes faults, checks what must hold afterwards, and returns
how many faults it tried."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from faults.harness import (
    FULL,
    READ_ONLY,
    Case,
    Fault,
    Photograph,
    calls_of,
    count_calls,
    end,
    hidden,
    kill,
    killed_at_random,
    restore,
    run,
    said,
    start,
)

from backend.errors import UserError
from nmt.training import checkpoint
from nmt.training.run import LAST

Work = Callable[[], int]
BEGUN = 32  # system calls of a run before its first checkpoint
ARRAYS = {"parameters/W": np.arange(2e5), "parameters/b": np.ones(3, np.float32)}


def with_fault(work: Work, fault: Fault, at: int, always: bool = False) -> int:
    """Do the work in a process with a fault at a system call; return its exit status."""
    def meet() -> int:
        count_calls(fault, at, always)
        return work()

    return run(meet)


# --- one save -------------------------------------------------------------------------------------


def save(path: Path, number: int) -> int:
    """Write a checkpoint with its number. Returns 2 after a UserError, like the command line."""
    try:
        checkpoint.save(path, {name: array + number for name, array in ARRAYS.items()},
                        {"number": number})
    except UserError:
        return 2
    return 0


def holds(path: Path) -> int:
    """The number in a checkpoint, all of whose arrays must have it."""
    saved = checkpoint.load(path)
    for name, array in ARRAYS.items():
        assert np.array_equal(saved.arrays[name], array + saved.metadata["number"])
    return saved.metadata["number"]


def kills_between_calls_of_a_save(directory: Path) -> int:
    """A kill before any call, or none, leaves the old or the new file; the next save sweeps the
    rest."""
    path, versions = directory / LAST, set()
    save(path, 1)
    calls = calls_of(lambda: save(path, 2), directory / "calls")
    for at in range(1, calls + 1):
        save(path, 1)
        assert with_fault(lambda: save(path, 2), kill, at) == -signal.SIGKILL
        versions.add(holds(path))
        save(path, 1)
        assert not hidden(directory)
    assert versions == {1, 2}
    return calls


def kills_in_a_loop_of_saves(directory: Path, kills: int, seed: int) -> int:
    """A kill at a random moment leaves whole files, and at most one unfinished file."""
    path, rng = directory / LAST, random.Random(seed)
    save(path, 0)

    def loop() -> int:
        number = 0
        while True:
            number += 1
            save(path, number)

    for _ in range(kills):
        assert killed_at_random(loop, 0.05, rng) == -signal.SIGKILL
        holds(path)
        assert len(hidden(directory)) <= 1
    save(path, 0)
    assert not hidden(directory)
    return kills


def errors_in_a_save(directory: Path, fault: Fault) -> int:
    """An error at any call leaves the old file, unless it comes after the file was replaced."""
    path = directory / LAST
    save(path, 1)
    calls = calls_of(lambda: save(path, 2), directory / "calls")
    refused, versions = 0, list[int]()
    for at in range(1, calls + 1):
        save(path, 1)
        status = with_fault(lambda: save(path, 2), fault, at)
        refused += status == 2
        versions.append(holds(path))
        assert status in (0, 2) and not hidden(directory)
    assert refused and versions == sorted(versions) and {*versions} == {1, 2}
    return calls


# --- a run ----------------------------------------------------------------------------------------


def kills_between_calls_of_a_run(case: Case, places: Sequence[int]) -> int:
    """A run that is killed before any of its calls and then resumed ends bit-identical."""
    for at in places:
        assert with_fault(lambda: case.train("cut"), kill, at) == -signal.SIGKILL
        case.check("cut")
        shutil.rmtree(case.directory / "cut")
    return len(places)


def kills_photographed(case: Case, photographs: Sequence[Photograph]) -> int:
    """A run that is killed anywhere and resumed ends like a run that was not killed.

    A killed process leaves its files as they are. So the copies of one run's files, made before
    each of its calls, stand for all kills.
    """
    for photograph in photographs:
        restore(case.directory / "cut", photograph)
        case.check("cut")
        shutil.rmtree(case.directory / "cut")
    return len(photographs)


def kills_of_every_system(cases: Iterable[Case], step: int) -> int:
    """A run of each system, killed before every call, or before every n-th."""
    tried = 0
    for case in cases:
        case.make_whole()
        tried += kills_between_calls_of_a_run(case, range(1, case.calls + 1, step))
        shutil.rmtree(case.directory / "whole")
    return tried


def kills_while_it_begins_again(case: Case, places: Sequence[int]) -> int:
    """A run is killed before its first checkpoint, started again, and killed again before a
    call."""
    for at in places:
        for place in (BEGUN, at):
            assert with_fault(lambda: case.train("cut"), kill, place) == -signal.SIGKILL
        case.check("cut")
        shutil.rmtree(case.directory / "cut")
    return len(places)


def kills_at_random(case: Case, kills: int, seed: int) -> int:
    """Runs are killed at random moments, also while they resume, until they are done."""
    rng, done, number = random.Random(seed), 0, 0
    while done < kills:
        number += 1
        name, status = f"random-{number}", -signal.SIGKILL
        while status and done < kills:
            status = killed_at_random(lambda name=name: case.go_on(name), case.seconds, rng)
            assert status in (0, -signal.SIGKILL), said()
            done += status != 0
        case.check(name)
        shutil.rmtree(case.directory / name)
    return done


def signals(case: Case) -> int:
    """Ctrl-C and SIGTERM at some update: the run saves, exits with 130 or 143, and resumes
    bit-identical."""
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        fault = lambda number=number: os.kill(os.getpid(), number)  # noqa: E731
        assert with_fault(lambda: case.train("cut"), fault, case.calls // 2) == status
        case.check("cut")
        shutil.rmtree(case.directory / "cut")
    return 2


def full_disk(case: Case, places: Sequence[int]) -> int:
    """The disk is full from some call on, and later has space again."""
    for at in places:
        assert with_fault(lambda: case.train("cut"), FULL, at, always=True) in (0, 2)
        case.check("cut")
        shutil.rmtree(case.directory / "cut")
    return len(places)


def limited_files(case: Case) -> int:
    """The system limits the size of files to less than the checkpoint's."""
    with_fault(lambda: case.train("cut"), kill, case.calls * 2 // 3)
    before = (case.directory / "cut" / LAST).read_bytes()

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))
        return case.resume("cut")

    status = run(limited)
    assert status == 2 and f"{LAST}: cannot be written" in said(), f"{status}: {said()}"
    assert (case.directory / "cut" / LAST).read_bytes() == before
    case.check("cut")
    shutil.rmtree(case.directory / "cut")
    return 1


def read_only(case: Case) -> int:
    """No file can be opened for writing: the run is refused, and nothing changes."""
    with_fault(lambda: case.train("cut"), kill, case.calls * 2 // 3)
    before = (case.directory / "cut" / LAST).read_bytes()
    assert with_fault(lambda: case.resume("cut"), READ_ONLY, 1, always=True) == 2
    assert (case.directory / "cut" / LAST).read_bytes() == before
    case.check("cut")
    shutil.rmtree(case.directory / "cut")
    return 1


def moved(case: Case, places: Sequence[int]) -> int:
    """The directory is moved before a call: the run reports it, and can be resumed at the new
    place."""
    cut = case.directory / "cut"

    def move() -> None:
        if cut.exists():
            os.rename(cut, case.directory / "moved")

    for at in places:
        status = with_fault(lambda: case.train("cut"), move, at)
        assert status in (0, 2)
        if (case.directory / "moved").exists():
            assert not cut.exists()
            case.check("moved")
            shutil.rmtree(case.directory / "moved")
        else:  # it was not yet made
            shutil.rmtree(cut)
    return len(places)


def deleted(case: Case, places: Sequence[int]) -> int:
    """The directory is deleted before a call: the run ends, and does not create it again."""
    cut = case.directory / "cut"

    def delete() -> None:
        if cut.exists():
            os.rename(cut, case.directory / "gone")
            os.system(f"rm -rf '{case.directory / 'gone'}'")

    for at in places:
        assert with_fault(lambda: case.train("cut"), delete, at) in (0, 2)
        case.check("cut")  # begun again
        shutil.rmtree(cut)
    return len(places)


def two_processes(case: Case) -> int:
    """While one process trains, even if it is stopped, another is refused; after its death it is
    not."""
    stop = lambda: os.kill(os.getpid(), signal.SIGSTOP)  # noqa: E731

    def stopping() -> int:
        count_calls(stop, case.calls // 2)
        return case.train("cut")

    for last in (signal.SIGCONT, signal.SIGKILL):
        first = start(stopping)
        os.waitpid(first, os.WUNTRACED)
        assert run(lambda: case.resume("cut")) == run(lambda: case.train("cut")) == 2
        os.kill(first, last)
        assert end(first) == (0 if last == signal.SIGCONT else -signal.SIGKILL)
        case.check("cut")
        shutil.rmtree(case.directory / "cut")
    together = [start(lambda: case.train("cut")) for _ in range(2)]
    assert sorted(end(child) for child in together) in ([0, 2], [2, 2])
    case.check("cut")
    shutil.rmtree(case.directory / "cut")
    return 3


def timed(tell: Callable[[str], None], name: str, fault: Callable[[], int]) -> int:
    """Try a kind of fault, and print how often and how long."""
    before = time.monotonic()
    tried = fault()
    tell(f"{name}: {tried} tried, all as they must be, {time.monotonic() - before:.0f} s")
    return tried
