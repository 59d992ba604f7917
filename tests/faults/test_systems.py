"""A run of every system that was killed before any call ends as it would have."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

import pytest
from faults import faults, systems
from faults.harness import Case, run

from backend.errors import UserError
from nmt.base_system import BaseSystem
from nmt.models.registry import MODELS
from nmt.training import checkpoint
from nmt.training.run import LAST


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return systems.prepare(tmp_path_factory.mktemp("systems"))


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """Do not flush files: what a killed process has written is there anyway."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.parametrize("name", systems.COMMANDS)
def test_kills_anywhere(cases, name):
    photographs = cases[name].photographs()
    assert faults.kills_photographed(cases[name], photographs) >= 5
    shutil.rmtree(cases[name].directory / "whole")


def test_no_system_is_left_out(cases):
    kinds, architectures = set(), set()
    for number, case in enumerate(cases.values()):
        assert run(lambda case=case, number=number: case.train(f"of-{number}")) == 0
        known = checkpoint.load_metadata(case.directory / f"of-{number}" / LAST)["model"]
        kinds.add(known["kind"])
        architectures.add(known["recipe"].get("model.architecture"))
    assert architectures - {None} == MODELS.keys()
    assert kinds == {system.kind for system in subclasses(BaseSystem) if "kind" in vars(system)}


def subclasses(kind):
    """All subclasses, at any depth."""
    return {descendant for subclass in kind.__subclasses__()
            for descendant in (subclass, *subclasses(subclass))}


@dataclass
class Failing(Case):
    """A run that fails while it saves its first update, and removes what it wrote."""

    def train(self, name: str) -> int:
        real = checkpoint.save

        def save(path, *arguments, **settings):
            if path.exists() and path.name == LAST:
                raise UserError(f"{path}: cannot be written")
            real(path, *arguments, **settings)

        checkpoint.save = save
        return super().train(name)


def test_kills_while_a_failed_run_is_taken_back(cases):
    """The run has also kept checkpoints of epochs."""
    case = cases["several tasks"]
    photographs = Failing(case.directory, case.command).photographs("failed", status=2)
    assert not (case.directory / "failed").exists()
    case.make_whole()
    first = ["b/epoch-1.safetensors" in photograph for photograph in photographs].index(True)
    assert faults.kills_photographed(case, photographs[first:]) > 10
    shutil.rmtree(case.directory / "whole")
