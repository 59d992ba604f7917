"""The model of time by ranks recovers the coefficients of made-up times; a quick run writes a
record."""

from __future__ import annotations

import pytest
from ranks import ENVIRONMENT, WHY_NOT
from timed import run

from benchmarks import ranks
from benchmarks.timing import blas_kernels


@pytest.mark.parametrize("algorithm", ranks.ALGORITHMS)
def test_the_fit_finds_what_times_were_made_from(algorithm) -> None:
    alpha, beta, a, b = 3e-5, 2e-9, 0.01, 0.002

    def row(p, batch):
        costs = [ranks.ALGORITHMS[algorithm](p, size) for size in ranks.LENGTHS]
        return {"sizes": {"ranks": p, "threads": 1, "batch": batch}, "lengths": ranks.LENGTHS,
                "sums": [alpha * x + beta * y for x, y in costs],
                "cpu": {"passes": a + b * batch / p}}

    fitted = ranks.fit([row(1, 64), row(2, 64), row(4, 64), row(2, 128)])
    assert fitted["algorithm"] == algorithm and fitted["error"] < 1e-9
    assert [fitted[name] for name in ("alpha", "beta", "a", "b")] == \
        pytest.approx([alpha, beta, a, b])


def test_bytes_of_a_gradient_are_counted() -> None:
    """Luong's decoder and encoder of one layer, one unit wide: tables are rows."""
    sizes = {"layers": 1, "hidden": 2, "vocabulary": 10, "length": 3}
    dense, rows = ranks.gradient_bytes(sizes, 2)
    weights = ranks.make_model(sizes).weights()
    tables = sum(weight.shape[0] * weight.shape[1] for name, weight in weights.items()
                 if name in ("encoder.W_e", "decoder.W_e"))
    entries = sum(weight.shape[0] * (weight.shape[1] if len(weight.shape) > 1 else 1)
                  for weight in weights.values())
    assert (dense, rows) == (4 * (entries - tables), 4 * 2 * 6 * 2) and tables == 40


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_a_quick_run_leaves_a_record(tmp_path, capsys, monkeypatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    path, record = run("ranks", tmp_path, "--only", "ranks=1 threads=1", "fixed batch  ranks=2")
    assert path.name == f"ranks-{blas_kernels()}.json"
    assert [row["bytes"] > 0 for row in record["rows"]] == [False, True, False]
    assert ranks.fit(record["rows"])["b"] >= 0
    assert "| growing | 512 |" in capsys.readouterr().out
