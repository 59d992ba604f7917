"""Every verb that can take more than two seconds shows its progress on a terminal."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from screen import Drawn, drawn
from test_help import verbs
from tiny_run import TEXT_RECIPE, write_corpus, write_recipe

import benchmarks.__main__
import benchmarks.timing
import grads.cli
import nmt.cli
from nmt.console import progress

PAIR, MODEL = ("test.en", "test.de"), ("--model", "run")
SHOWN: dict[str, tuple[Any, ...]] = {  # by verb: a call, the bars that it shows
    "nmt demo": (("--phrases", 40, "--epochs", 1, "--data.dev_size", 6, "--data.test_size", 2,
                  "--model.hidden_size", 8, "--model.embedding_size", 8, "--output", "demo"),
                 "phrases", "epoch 1/1"),
    "nmt corpus": (("phrases", "--train", 3, "--dev", 2, "--test", 2), "phrases"),
    "nmt train": (("r.yaml", "--output", "again", "--train.epochs", 1), "lines of train.en",
                  "epoch 1/1"),
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
    "nmt prune": (("run", "--percent", 50, "--retrain", "--output", "pruned"), "lines of train",
                  "epoch 4/4"),
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
    "nmt detokenise": (("test.en",), "lines of test.en"),
    "nmt statistics": (("test.en",), "lines of test.en"),
    "nmt lm train": (("lm.yaml", "--output", "words"), "lines of train.de", "epoch 2/2"),
    "nmt lm sample": (("--model", "words", "--length", 2), "drawing"),
    "nmt lm perplexity": (("test.de", "--model", "words"), "perplexity"),
    "nmt lm tune": ((*PAIR, *MODEL, "--lm", "words"), "translating"),
    "grads check": (("own.py:cube",), "own.py:cube"),
    "grads matrix": (("-o", "matrix.md"), "checks"),
    "grads mutants": ((), "mutants"),
    "grads explore": (("lstm",), "verifying lstm"),
    "grads walk": (("gru", "--all"), "verifying gru"),
    "grads debug-state": (("run", "-o", "d.safetensors"), "tracing run"),
    "grads equations": (("-o", "e.md"), "equations"),
}
OTHERS = {"nmt init": "writes a file", "nmt recipe": "writes a page",
          "nmt serve": "waits", "nmt logits steps": "is one sentence",
          "nmt logits lexicon": "is one product of tables", "nmt logits norms": "reads a table",
          "nmt lm fuse": "trains", "nmt reproduce": "runs other verbs",
          "nmt export": "writes a graph", "grads debug-state": "is one sentence",
          "nmt trees": "reads many small files",
          "nmt join-pairs": "copies lines"}
OWN = "import time\nimport numpy as np\n" \
    "\ndef cube_inputs(rng):\n    return [rng.normal(size=3)]\n" \
    "\ndef cube(x):\n    return (x ** 3).sum()\n\ndef cube_gradient(x):\n    return 3 * x ** 2\n" \
    "\nslow_inputs, slow_gradient = cube_inputs, cube_gradient\n" \
    "\ndef slow(x):\n    print('at work')\n    time.sleep(60)\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The working directory, with a corpus, a run and all else that the calls read."""
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


class Now:
    """A timer that does not wait."""

    def __init__(self, _: float, call: Callable[[], None]) -> None:
        self.start = call

    def cancel(self) -> None:
        """Do nothing: it has ended."""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars are shown, and moved, at once."""
    monkeypatch.setattr(threading, "Timer", Now)
    monkeypatch.setattr(progress, "PAUSE", 0.0)


def test_every_verb_is_listed() -> None:
    listed = {parser.prog for build in (nmt.cli.build_parser, grads.cli.build_parser)
              for parser in verbs(build()) if parser._subparsers is None}
    assert listed == SHOWN.keys() | OTHERS.keys()


@pytest.mark.parametrize("verb", SHOWN)
def test_a_verb_shows_what_it_is_at(
    verb: str, work: None, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bars are drawn in place and erased at the end, and no code is shown as text."""
    arguments, *bars = SHOWN[verb]
    if verb in ("nmt plot", "nmt words"):
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    if verb == "nmt bpe learn":
        pytest.importorskip("subword_nmt", reason="subword-nmt is not installed")
    _without_long_work(monkeypatch)
    terminal = drawn(lambda: call(verb, *arguments))
    assert terminal.status == 0, terminal.seen()
    assert [bar for bar in bars if bar not in terminal.seen()] == []
    _tidy(terminal)


def call(verb: str, *arguments: object) -> None:
    """Run a command with arguments."""
    words = [*verb.split()[1:], *map(str, arguments)]
    (nmt.cli.main if verb.startswith("nmt") else grads.cli.main)(words)


def _tidy(terminal: Drawn) -> None:
    """No code is shown as text, bars were redrawn and are gone, the cursor is visible."""
    assert "\\x1b" not in terminal.written and "━" in terminal.written, terminal.written
    assert not [line for line in terminal.lines if "━" in line], terminal.lines
    assert terminal.cursor


@pytest.mark.parametrize("verb, arguments, bar, said", [
    ("nmt train", ("r.yaml", "--output", "stopped", "--train.epochs", 10**5), "epoch 2,",
     "nmt: stopped after update"),
    ("nmt lm train", ("lm.yaml", "--output", "ended", "--train.epochs", 10**5), "epoch 2,",
     "nmt: stopped after update"),
    ("grads check", ("own.py:slow",), "at work", "grads: interrupted"),
])  # fmt: skip
def test_after_ctrl_c_the_terminal_is_as_before(
    verb: str, arguments: tuple[object, ...], bar: str, said: str, work: None, at_once: None
) -> None:
    terminal = drawn(lambda: call(verb, *arguments), {bar: "\x03"})
    assert terminal.status == 130 and said in terminal.lines[-2], terminal.lines
    _tidy(terminal)


def test_the_screen_of_a_walk_comes_and_goes(work: None, at_once: None) -> None:
    terminal = drawn(lambda: call("grads walk", "gru"), {"q leave": "q"})
    assert terminal.status == 0 and terminal.lines == [""], terminal.lines
    _tidy(terminal)


def _without_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace work of `grads` that takes minutes."""
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


def test_benchmarks_say_how_far_they_are(
    at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(_: Any) -> None:
        benchmarks.timing.interleave({"nothing": lambda: None}, 2, 0)

    monkeypatch.setattr(benchmarks.__main__, "find", lambda name: timed)
    terminal = drawn(lambda: sys.exit(benchmarks.__main__.main(["kernels"])))
    assert terminal.status == 0 and "kernels" in terminal.seen()
    assert re.search("timing, iterations +[━╺]+ 1 of 2", terminal.seen())
    _tidy(terminal)
