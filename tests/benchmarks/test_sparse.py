"""Search by sparse products is compared before it is timed."""

import json
from dataclasses import replace

import pytest

from benchmarks import sparse
from benchmarks.timing import blas_kernels


def test_a_quick_run_leaves_a_record(tmp_path, capsys):
    pytest.importorskip("scipy", reason="scipy (extra `sparse`) is not installed")
    sparse.main(["--quick", "--output", str(tmp_path)])
    record = json.loads((tmp_path / f"sparse-{blas_kernels()}.json").read_text())
    assert [(row["percent"], row["beam"]) for row in record["rows"]] == [(80, 1), (80, 3)]
    assert all(row["difference"] < 1e-9 and row["ratio"] > 0 for row in record["rows"])
    assert "80 % pruned, beam 3, 2 sentences" in capsys.readouterr().out


@pytest.mark.parametrize("changed, message", [
    ("tokens", "the hypotheses are not those of dense products"),
    ("log_probability", "log-probabilities differ by 1.0e-01")])
def test_what_is_not_equal_is_not_timed(monkeypatch, changed, message):
    pytest.importorskip("scipy", reason="scipy (extra `sparse`) is not installed")
    options = sparse.parse(["--quick", "--output", "x"])
    model, parameters = sparse.make_model(options)
    whole = sparse.searches

    def wrong(*arguments):
        found = whole(*arguments)
        ours = found["sparse"]()
        one = ours[0][0]
        ours[0][0] = replace(one, tokens=one.tokens[:-1]) if changed == "tokens" else \
            replace(one, log_probability=one.log_probability * 1.1)
        return {**found, "sparse": lambda: ours}

    monkeypatch.setattr(sparse, "searches", wrong)
    with pytest.raises(AssertionError, match=message):
        sparse.run(model, sparse.pruned(model, parameters, 80), 80, 1, 2, options)
