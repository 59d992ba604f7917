"""Every option that writes a file writes into devices and FIFOs and through links, and does not
replace them."""

import io
import sys

import pytest
from outputs import fifo, left_over, null_device
from tiny_run import nmt

from grads.cli import main as grads

OPTIONS = {
    "align -o": "align train.en train.de --method model1 -o OUT",
    "dictionary": "dictionary dev.en dev.de OUT --links links --min-count 1",
    "translate --alignments": "translate --model model --alignments OUT",
    "restore -o": "restore train.en train.de --method posall -o OUT",
    "similarity -o": "similarity pairs --model model -o OUT",
    "words -o": "words dev.en --model model -o OUT",
}


@pytest.fixture
def run(trained, monkeypatch):
    """Call an option's command; it writes into `out`."""
    (trained / "pairs").write_text("one two 5\nthree four 1\none six 3\n")
    (trained / "links").write_text("0-0\n" * 8)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two\n")))

    def call(name, out="out"):
        assert nmt(*OPTIONS[name].replace("OUT", out).split()) == 0
        return trained / "out"

    return call


@pytest.mark.parametrize("name", OPTIONS)
def test_a_device_and_a_fifo_stay_what_they_are(run, trained, name):
    if name == "words -o":
        pytest.importorskip("matplotlib")
    with fifo(trained / "out") as read:
        assert run(name).is_fifo()
    (trained / "out").unlink()
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"one two\n"))
    (trained / "out").symlink_to("goal")
    assert run(name).is_symlink()
    assert read == [(trained / "goal").read_bytes()] and len(read[0]) > 3
    assert not left_over(trained)


def test_alignments_leave_a_device_a_device(run, trained):
    null_device(trained / "out")
    assert run("translate --alignments").is_char_device()


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_reports_of_gradients(tmp_path, option):
    (tmp_path / "sum.py").write_text("def f(x):\n    return (x ** 2).sum()\n\n"
                                     "def f_gradient(x):\n    return 2 * x\n\n"
                                     "def f_inputs(rng):\n    return rng.normal(size=3)\n")
    with fifo(tmp_path / "out") as read:
        grads(["check", f"{tmp_path / 'sum.py'}:f", option, str(tmp_path / "out")])
    assert (tmp_path / "out").is_fifo() and len(read[0]) > 100
