"""A few of each kind of fault; `python -m tests.faults` tries all."""

import pytest
from faults import faults
from faults.harness import FULL, READ_ONLY, Case
from tiny_run import write_corpus, write_recipe


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A run of a second, without faults."""
    directory = tmp_path_factory.mktemp("faults")
    write_corpus(directory, pairs=24)
    write_recipe(directory / "r.yaml", train={"epochs": 2, "checkpoint_every": 2, "log_every": 1})
    case = Case(directory)
    case.make_whole()
    return case


def test_kills_between_all_calls_of_a_save(tmp_path):
    assert faults.kills_between_calls_of_a_save(tmp_path) > 10


def test_kills_in_a_loop_of_saves(tmp_path):
    faults.kills_in_a_loop_of_saves(tmp_path, 5, seed=1)


@pytest.mark.parametrize("fault", [FULL, READ_ONLY], ids=["full", "read-only"])
def test_errors_at_all_calls_of_a_save(tmp_path, fault):
    assert faults.errors_in_a_save(tmp_path, fault) > 10


def test_kills_between_calls_of_a_run(case):
    """Kills at the beginning, while the first checkpoints are written, and at the end."""
    faults.kills_between_calls_of_a_run(case, [3, case.calls // 2, case.calls])


def test_kills_while_a_run_begins_again(case):
    """Kills while its lock is written again, and afterwards."""
    faults.kills_while_it_begins_again(case, [5, 20])


def test_kills_at_random_moments(case):
    faults.kills_at_random(case, 4, seed=1)


@pytest.mark.parametrize("fault", [faults.signals, faults.limited_files, faults.read_only,
                                   faults.two_processes], ids=lambda fault: fault.__name__)
def test_other_faults(case, fault):
    fault(case)


@pytest.mark.parametrize("fault", [faults.full_disk, faults.moved, faults.deleted],
                         ids=lambda fault: fault.__name__)
def test_faults_in_the_midst_of_a_run(case, fault):
    fault(case, [5, case.calls // 2])
