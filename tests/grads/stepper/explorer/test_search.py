"""The data of the page of a search: that of `nmt translate` to the last digit, and what it says."""

from __future__ import annotations

import io
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_run import nmt

from backend.errors import UserError
from grads.cli import main
from grads.stepper import trained as package
from grads.stepper.explorer.search import OWN_SENTENCE, SearchSettings, build_search
from nmt.data.batches import make_sources
from nmt.pages.page import SEARCH, page_of
from nmt.search.beam import greedy
from nmt.search.interface import SearchOptions
from nmt.search.recorder import DIGITS, FATES, words_of
from nmt.system import System
from nmt.translation import Translation

SENTENCE = "one two ten <script>"
VARIANTS: list[dict[str, Any]] = [
    {}, {"beam": 1}, {"beam": 4, "nbest": 3, "length_normalisation": 1.0},
    {"beam": 3, "length_factor": 0.25}, {"nbest": 5}]


def settings(searched: Path, name: str = "attention", **choices: Any) -> SearchSettings:
    return SearchSettings(searched / name, **{"sentence": SENTENCE, **choices})


build = cache(build_search)  # the same page serves several tests


def options_of(choices: dict[str, Any]) -> list[str]:
    """Settings as the options of a command line."""
    return [text for key, value in choices.items()
            for text in (f"--{key.replace('_', '-')}", str(value))]


@pytest.fixture
def translate(searched: Path, monkeypatch: Any, capsys: Any) -> Any:
    """What `nmt translate` prints for the sentence."""

    def call(*options: object) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SENTENCE.encode())))
        capsys.readouterr()
        assert nmt("translate", *options) == 0
        return str(capsys.readouterr().out)

    return call


@pytest.mark.parametrize("choices", VARIANTS, ids=str)
def test_what_is_found_is_what_nmt_translate_prints(
    choices: dict[str, Any], searched: Path, translate: Any
) -> None:
    data = build(settings(searched, **choices))
    hypotheses = data["searches"]["beam"]["found"]
    printed = translate("--model", searched / "attention", *options_of(choices))
    lines = [f"0 ||| {hypothesis['text']} ||| log_p= {hypothesis['log_p']:.4f} "
             f"cut= {int(not hypothesis['finished'])} "
             f"||| {hypothesis['score']:.4f}\n"
             for hypothesis in hypotheses] if "nbest" in choices else [
        f"{hypothesis['text']}\n" for hypothesis in hypotheses]
    assert printed == "".join(lines)
    plain = {**choices, "beam": 1, "length_normalisation": 0}
    plain.pop("nbest", None)
    [alone] = data["searches"]["greedy"]["found"]
    assert translate("--model", searched / "attention", *options_of(plain)) == alone["text"] + "\n"


def test_an_ensemble(searched: Path, translate: Any) -> None:
    pair = searched / "attention", searched / "reversed"
    data = build(settings(searched, ensemble=(searched / "second",), average="logs"))
    printed = translate("--model", pair[0], searched / "second", "--average", "logs",
                        "--nbest", "1")
    [hypothesis] = data["searches"]["beam"]["found"]
    assert f"log_p= {hypothesis['log_p']:.4f} cut" in printed
    assert f" {hypothesis['text']} " in printed
    assert data["settings"]["model"] == ["attention", "second"]
    assert "--ensemble second --sentence" in data["command"]
    with pytest.raises(UserError, match=r"expected the data\.reverse_source of"):
        build(settings(searched, ensemble=(pair[1],)))


def direct(system: System, options: SearchOptions) -> list[Translation]:
    return system.translate([SENTENCE.split()], options)[0]


@pytest.mark.parametrize("name", ["attention", "reversed", "plain"])
def test_every_number_is_the_search_s_own(name: str, searched: Path) -> None:
    """Scores to the last digit; weights to the digits that the page holds."""
    data = build(settings(searched, name, beam=3, nbest=3))
    system = System.open(searched / name)
    options = SearchOptions(beam=3, nbest=3, minimum_steps=2)
    for hypothesis, translation in zip(data["searches"]["beam"]["found"], direct(system, options),
                                       strict=True):
        assert (hypothesis["log_p"], hypothesis["score"], hypothesis["finished"]) == (
            translation.log_probability, translation.score, translation.finished)
        steps = data["searches"]["beam"]["steps"]
        path = path_of(steps, *hypothesis["at"])
        assert words_of(steps, tuple(hypothesis["at"])) == translation.words == hypothesis["words"]
        assert path[-1]["log_p"] == translation.log_probability
        assert sum(step["word_log_p"] for step in path) == pytest.approx(path[-1]["log_p"])
        weights = [steps[k]["weights"] and steps[k]["weights"][step["parent"]]
                   for k, step in enumerate(path)]
        if translation.alignment is None:
            assert not any(weights) and not data["attention"]
            assert "This model has no attention." in data["notes"]
        else:
            np.testing.assert_allclose(weights, translation.alignment, atol=0.6 * 10**-DIGITS)
    if name != "plain":
        assert data["source"] == SENTENCE.split() and data["unknown"] == [2]
    said = [note for note in data["notes"] if "from its end" in note]
    assert len(said) == (name == "reversed")
    assert "sentence: read as <unk>: ten." in data["notes"]


def path_of(steps: list[dict[str, Any]], step: int, at: int) -> list[dict[str, Any]]:
    """A hypothesis's candidates, the first one first."""
    path: list[dict[str, Any]] = []
    while at >= 0:
        path.insert(0, steps[step]["candidates"][at])
        step, at = step - 1, path[0]["parent"]
    return path


def test_the_words_cost_what_force_decoding_says(searched: Path) -> None:
    system = System.open(searched / "attention")
    data = build(settings(searched, beam=4, nbest=4))
    for hypothesis in data["searches"]["beam"]["found"]:
        if hypothesis["finished"]:
            [forced] = system.force([(SENTENCE.split(), hypothesis["words"])])
            path = path_of(data["searches"]["beam"]["steps"], *hypothesis["at"])
            assert forced.steps is not None
            np.testing.assert_allclose([step["word_log_p"] for step in path], forced.steps,
                                       rtol=1e-4, atol=1e-5)


def test_greedy_is_greedy_search(searched: Path) -> None:
    for name in ("attention", "plain"):
        data = build(settings(searched, name, beam=4, length_normalisation=2.0))
        system = System.open(searched / name)
        sources = make_sources([system.source_ids(SENTENCE.split())], False)
        [expected] = greedy(system.model, system.parameters, sources,
                            SearchOptions(minimum_steps=2))
        [hypothesis] = data["searches"]["greedy"]["found"]
        assert hypothesis["words"] == system.target.tokens(expected.tokens)
        assert hypothesis["score"] == hypothesis["log_p"]
        assert hypothesis["log_p"] == pytest.approx(expected.log_probability, rel=1e-6)


@pytest.mark.parametrize("choices", VARIANTS, ids=str)
def test_why_each_was_kept_or_pruned(choices: dict[str, Any], searched: Path) -> None:
    """Held to the definitions, each step by itself."""
    for search in build(settings(searched, **choices))["searches"].values():
        K, steps, at_end = search["beam"], search["steps"], set()
        for number, step in enumerate(steps, 1):
            candidates, last = step["candidates"], number == len(steps)
            log_p = [candidate["log_p"] for candidate in candidates]
            assert log_p == sorted(log_p, reverse=True) and len(candidates) > K
            growing = [candidate for candidate in candidates if not candidate["end"]][:K]
            fates = {"cut" if number == search["limit"] else "stopped"} if last else {"grows"}
            assert {candidate["fate"] for candidate in growing} == fates
            for rank, candidate in enumerate(candidates):
                if not candidate["end"] and candidate not in growing:
                    assert candidate["fate"] == "outside"
                if candidate["end"]:
                    accepted = candidate["fate"] in ("finished", "surpassed")
                    assert accepted == (rank < K) and (accepted or candidate["fate"]
                                                       == "end outside")
                    listed = [number - 1, rank] in [ended["at"] for ended in step["ended"]]
                    assert listed == (candidate["fate"] == "finished")
            assert step["done"] == last
            at_end |= fates if last else set()
        scores = sorted((ended["score"] for ended in steps[-1]["ended"]), reverse=True)
        assert scores == [hypothesis["score"] for hypothesis in search["found"]]
        if at_end == {"stopped"}:
            assert steps[-1]["reachable"] <= scores[-1]


def test_all_fates_occur(searched: Path) -> None:
    """So that the tests above cannot pass for want of cases."""
    fates = {candidate["fate"] for choices in VARIANTS
             for search in build(settings(searched, **choices))["searches"].values()
             for step in search["steps"] for candidate in step["candidates"]}
    assert fates == {"grows", "finished", "surpassed", "outside", "end outside", "cut", "stopped"}


def test_a_page_is_small_and_its_words_are_no_markup(searched: Path) -> None:
    data = build(settings(searched, beam=5))
    assert "<script>" in data["source"]
    page = page_of(data, SEARCH)
    assert len(page.encode()) < 1_000_000
    assert "<script>" not in page and str(searched) not in page


def test_the_command(searched: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "page.html"
    main(["explore", "search", "--model", str(searched / "attention"), "--sentence", SENTENCE,
          "--beam", "2", "-o", str(path)])
    assert capsys.readouterr().out == f"{path}: written\n"
    command = build(settings(searched, beam=2))["command"]
    assert command == (f'grads explore search --model attention --sentence "{SENTENCE}" --beam 2 '
                       "-o search.html")
    assert path.read_text() == page_of(build(settings(searched, beam=2)), SEARCH)


def test_without_a_model_the_package_s_own_is_searched(monkeypatch: Any, capsys: Any) -> None:
    data = build(SearchSettings())
    [hypothesis] = data["searches"]["beam"]["found"]
    directory = package.DIRECTORY / "attention"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(OWN_SENTENCE.encode())))
    assert nmt("translate", "--model", directory, "--beam", "3") == 0
    assert capsys.readouterr().out == hypothesis["text"] + "\n"
    assert hypothesis["log_p"] > data["searches"]["greedy"]["found"][0]["log_p"] + 0.1
    assert data["unknown"] == [] and data["attention"]
    assert data["notes"][0] == package.note("attention")
    assert data["command"] == "grads explore search -o search.html"


def test_in_the_terminal(searched: Path, capsys: Any) -> None:
    """Every candidate of the beam in a row, and what both searches found."""
    main(["walk", "search", "--model", str(searched / "attention"), "--sentence", SENTENCE])
    lines = capsys.readouterr().out.splitlines()
    data = build(settings(searched))
    beam = data["searches"]["beam"]
    rows = [re.fullmatch(r" *\d+ .* +(-?\d+\.\d+) +(-?\d+\.\d+)  (\D+?)(, score .*)?", line)
            for line in lines]
    said = [(float(row[1]), float(row[2]), row[3]) for row in rows if row]
    assert said == [(round(candidate["word_log_p"], 4), round(candidate["log_p"], 4),
                     FATES[candidate["fate"]])
                    for step in beam["steps"] for candidate in step["candidates"]]
    assert lines[0] == "sentence: read as <unk>: ten."
    [hypothesis] = beam["found"]
    assert (f"beam 3: {hypothesis['text']}, log p {hypothesis['log_p']:.4f}, "
            f"score {hypothesis['score']:.4f}") in lines


@pytest.mark.parametrize(("arguments", "message"), [
    (["search", "--checkpoint", "last"], "checkpoint: it needs a trained model: "),
    (["search", "--ensemble", "attention"], "ensemble: it needs a trained model: "),
    (["search", "--model", "nothing"], "found no such directory"),
    (["search", "--model", "lm"], "expected a translator, found a language model"),
    (["search", "--model", "attention", "--sentence", " "], "sentence: expected at least one word"),
    (["search", "--model", "attention", "--sentence", "one " * 1001], "at most 1000 words"),
    (["search", "--model", "attention", "--beam", "0"], "beam: expected an integer of at least 1"),
    (["search", "--model", "attention", "--beam", "2", "--nbest", "3"], "nbest: expected at most"),
    (["search", "--model", "attention", "--target", "eins"], "target: search has none"),
    (["lstm", "--length-normalisation", "1"], "length-normalisation: lstm has none; search has"),
])
def test_bad_input(
    arguments: list[str], message: str, searched: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(searched)
    with pytest.raises(SystemExit) as stop:
        main(["explore", *arguments])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and message in said and said.count("\n") == 1
