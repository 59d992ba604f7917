"""Every verb that can take more than two seconds says on a terminal what it is at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from test_help import verbs
from tiny_run import TEXT_RECIPE, write_corpus, write_recipe

import benchmarks.__main__
import benchmarks.timing
import grads.cli
import nmt.cli
from backend import progress

PAIR, MODEL = ("test.en", "test.de"), ("--model", "run")
SHOWN: dict[str, tuple[tuple[object, ...], str]] = {  # by verb: a call, a bar that it shows
    "nmt corpus": (("phrases", "--train", 3, "--dev", 2, "--test", 2), "phrases"),
    "nmt train": (("r.yaml", "--output", "again", "--train.epochs", 1), "lines of train.en"),
    "nmt translate": (("test.en", *MODEL), "translating"),
    "nmt score": (PAIR, "BLEU"),
    "nmt perplexity": ((*PAIR, *MODEL), "perplexity"),
    "nmt evaluate": ((*PAIR, *MODEL), "translating"),
    "nmt align": ((*PAIR, "--method", "hmm"), "EM"),
    "nmt attention": (("test.en", *MODEL, "--line", 1), "translating"),
    "nmt dictionary": ((*PAIR, "d", *MODEL), "scoring"),
    "nmt annotate": ((*PAIR, "--method", "noalign", "--source-vocabulary", 5,
                      "--target-vocabulary", 5, "--output", "annotated"), "annotating"),
    "nmt restore": ((*PAIR, "--method", "posall"), "restoring"),
    "nmt plot": (("run", "--output", "curves.png"), "drawing"),
    "nmt prune": (("run", "--percent", 50, "--retrain", "--output", "pruned"), "lines of train"),
    "nmt redundancy": (("run", "--output", "r", "--percents", 50, "--no-bleu"), "perplexity"),
    "nmt average": (("run/last.safetensors", "run/best.safetensors", "--output", "mean"),
                    "reading checkpoints"),
    "nmt rerank": (("test.en", "nbest", *MODEL, "--weights", "w", "--tune", "test.de"), "tuning"),
    "nmt back-translate": (("test.en", *MODEL, "--source", "made", "--target", "kept", "--sample",
                            1), "translating"),
    "nmt factors": (("test.en", "test.en", "--output", "factors"), "lines of test.en"),
    "nmt words": (("test.en", *MODEL, "--output", "w.png"), "drawing"),
    "nmt similarity": (("ratings", *MODEL), "lines of ratings"),
    "nmt aer": (("links", "links"), "lines of links"),
    "nmt brackets": (("w.words", "w.trees"), "lines of w.trees"),
    "nmt bpe learn": (("train.en", "--merges", 5, "-o", "codes"), "learning 5 merges"),
    "nmt bpe apply": (("codes", "test.en"), "lines of test.en"),
    "nmt bpe join": (("test.en",), "lines of test.en"),
    "nmt lm train": (("lm.yaml", "--output", "words"), "lines of train.de"),
    "nmt lm sample": (("--model", "words", "--length", 2), "drawing"),
    "nmt lm perplexity": (("test.de", "--model", "words"), "perplexity"),
    "nmt lm tune": ((*PAIR, *MODEL, "--lm", "words"), "translating"),
    "grads check": (("own.py:cube",), "own.py:cube"),
    "grads matrix": (("-o", "matrix.md"), "checks"),
    "grads mutants": ((), "mutants"),
    "grads explore": (("lstm",), "verifying lstm"),
    "grads walk": (("gru",), "verifying gru"),
    "grads equations": (("-o", "e.md"), "equations"),
}
OTHERS = {"nmt demo": "trains", "nmt init": "writes a file", "nmt recipe": "writes a page",
          "nmt serve": "waits", "nmt logits steps": "is one sentence",
          "nmt logits lexicon": "is one product of tables", "nmt logits norms": "reads a table",
          "nmt lm fuse": "trains", "nmt trees": "reads many small files"}
OWN = "import numpy as np\n\ndef cube_inputs(rng):\n    return [rng.normal(size=3)]\n" \
    "\ndef cube(x):\n    return (x ** 3).sum()\n\ndef cube_gradient(x):\n    return 3 * x ** 2\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A directory with a corpus, a run and what else the calls read; we are there."""
    directory = tmp_path_factory.mktemp("bars")
    write_corpus(directory)
    write_recipe(directory / "lm.yaml", TEXT_RECIPE, text={"vocabulary": "run/target.vocab"})
    recipe = write_recipe(directory / "r.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OPENBLAS_CORETYPE", raising=False)
        patch.chdir(directory)
        nmt.cli.main(["train", str(recipe), "--output", "run"])
        for name, text in (("ratings", "one two 5\nsix four 3\n"), ("links", "0-0\n"),
                           ("w.words", "a b\n"), ("w.trees", "(S XX XX )S\n"), ("own.py", OWN),
                           ("nbest", "".join(f"{n} ||| eins drei ||| log_p= -1.0 ||| -1.0\n"
                                             f"{n} ||| eins ||| log_p= -2.0 ||| -2.0\n"
                                             for n in range(6)))):
            (directory / name).write_text(text, "utf-8")
        yield


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the bars that a terminal would be shown, and which it was told to move."""
    found: list[str] = []

    @contextmanager
    def row(self: progress.Bars, what: str) -> Iterator[progress.Tell]:
        found.append(what)
        yield lambda done, of, at="", /: found.append(f"{what} {done} {of}")

    monkeypatch.setattr(progress.Bars, "row", row)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    return found


def test_every_verb_is_listed() -> None:
    found = {one.prog for build in (nmt.cli.build_parser, grads.cli.build_parser)
             for one in verbs(build()) if one._subparsers is None}
    assert found == SHOWN.keys() | OTHERS.keys()


@pytest.mark.parametrize("verb", SHOWN)
def test_a_verb_shows_what_it_is_at(
    verb: str, work: None, rows: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, bar = SHOWN[verb]
    if verb in ("nmt plot", "nmt words"):
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    if verb == "nmt bpe learn":
        pytest.importorskip("subword_nmt", reason="subword-nmt is not installed")
    _without_long_work(monkeypatch)
    words = [*verb.split()[1:], *map(str, arguments)]
    try:
        (nmt.cli.main if verb.startswith("nmt") else grads.cli.main)(words)
    except SystemExit as stop:
        assert not stop.code
    assert [row for row in rows if bar in row], rows


def _without_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `grads` would do for minutes is not done."""
    from grads.stepper.explorer import data
    from grads.verification import catalogue, derivations, equations
    from grads.verification.mutation import report, run

    known = list(derivations.entries())
    monkeypatch.setattr(derivations, "entries", lambda: known[:1])
    monkeypatch.setattr(catalogue, "entries", lambda *_, **__: ())
    monkeypatch.setattr(data, "explore", lambda *_, **__: "page")
    monkeypatch.setattr(run, "run", lambda *_, told: told(1, 2) or [])
    monkeypatch.setattr(report, "problems", lambda *_, **__: [])
    monkeypatch.setattr(equations, "to_markdown", lambda _: "")
    monkeypatch.setattr(equations, "problems", lambda _: [])


def test_benchmarks_say_how_far_they_are(rows: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(_: Any) -> None:
        benchmarks.timing.interleave({"nothing": lambda: None}, 2, 0)

    monkeypatch.setattr(benchmarks.__main__, "find", lambda name: timed)
    assert benchmarks.__main__.main(["kernels"]) == 0
    assert rows[0] == "kernels" and "timing, iterations 1 2" in rows
