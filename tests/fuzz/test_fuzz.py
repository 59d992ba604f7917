"""A small part of `python -m tests.fuzz`, and every input that once failed."""

from __future__ import annotations

import pytest
from fuzz.kept import KEPT
from fuzz.readers import READERS, Reader
from fuzz.run import fuzz, inputs

from backend.errors import UserError


@pytest.mark.parametrize("name", READERS)
def test_some_inputs_of_each_reader(name) -> None:
    outcome = fuzz(READERS[name], inputs(name, 100, seed=99))
    assert not outcome.findings, outcome.findings[0]
    assert outcome.refused and outcome.accepted


@pytest.mark.parametrize("name", KEPT)
def test_what_once_failed_is_read_or_refused(name) -> None:
    outcome = fuzz(READERS[name], [(str(i), data) for i, data in enumerate(KEPT[name])])
    assert not outcome.findings, outcome.findings[0][:2]


def test_an_input_is_the_same_each_time() -> None:
    for name in READERS:
        assert list(inputs(name, 5)) == list(inputs(name, 5))
        assert list(inputs(name, 2, first=3)) == list(inputs(name, 5))[3:]


def test_what_is_a_finding(monkeypatch) -> None:
    """Findings are any other error, an error that does not name the file, and too much memory or
    time."""

    def read(path):
        data = path.read_bytes()
        if data == b"name":
            raise UserError(f"{path}: fine")
        if data == b"nameless":
            raise UserError("somewhere")
        if data == b"memory":
            bytearray(1 << 33)
        while data == b"time":
            pass
        if data == b"other":
            raise KeyError(1)

    monkeypatch.setattr("fuzz.run.SECONDS", 0.2)
    given = [(what, what.encode()) for what in
             ("fine", "name", "nameless", "memory", "time", "other")]
    outcome = fuzz(Reader(read, lambda rng: b""), given)
    assert [(which, said.split(":")[0]) for which, said, _ in outcome.findings] == [
        ("nameless", "the file is not named"), ("memory", "MemoryError"), ("time", "TooSlow"),
        ("other", "KeyError")]
    assert (outcome.accepted, outcome.refused) == (1, 2)
