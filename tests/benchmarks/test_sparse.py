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
    right = search.sparse_and_dense

    def wrong(*arguments):
        searches = right(*arguments)
        ours = searches["sparse"]()
        hypothesis = ours[0][0]
        ours[0][0] = replace(hypothesis,
                             tokens=hypothesis.tokens[:-1]) if changed == "tokens" else \
            replace(hypothesis, log_probability=hypothesis.log_probability * 1.1)
        return {**searches, "sparse": lambda: ours}

    monkeypatch.setattr(search, "sparse_and_dense", wrong)
    with pytest.raises(AssertionError, match=message):
        prepare(next(cases("sparse", ["--quick", "--output", "x"])), CPU)
