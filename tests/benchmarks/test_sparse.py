"""Search by sparse products is compared before it is timed."""

from dataclasses import replace

import pytest
from timed import cases, prepare, run

from benchmarks import search
from benchmarks.devices import CPU
from benchmarks.timing import blas_kernels

pytest.importorskip("scipy", reason="scipy (extra `sparse`) is not installed")


def test_a_quick_run_leaves_a_record(tmp_path, capsys):
    path, record = run("sparse", tmp_path)
    assert path.name == f"sparse-{blas_kernels()}.json"
    assert [(row["case"], row["sizes"]["beam"]) for row in record["rows"]] == [
        ("80 % pruned", 1), ("80 % pruned", 3)]
    for row in record["rows"]:
        assert row["differences"]["float64"] < 1e-9 and list(row["seconds"]) == ["sparse", "dense"]
    assert "80 % pruned  beam=3 sentences=2" in capsys.readouterr().out


@pytest.mark.parametrize("changed, message", [
    ("tokens", "the hypotheses of sparse and dense differ"),
    ("log_probability", "log-probabilities differ by 1.0e-01")])
def test_what_is_not_equal_is_not_timed(monkeypatch, changed, message):
    whole = search.sparse_and_dense

    def wrong(*arguments):
        found = whole(*arguments)
        ours = found["sparse"]()
        one = ours[0][0]
        ours[0][0] = replace(one, tokens=one.tokens[:-1]) if changed == "tokens" else \
            replace(one, log_probability=one.log_probability * 1.1)
        return {**found, "sparse": lambda: ours}

    monkeypatch.setattr(search, "sparse_and_dense", wrong)
    with pytest.raises(AssertionError, match=message):
        prepare(next(cases("sparse", ["--quick", "--output", "x"])), CPU)
