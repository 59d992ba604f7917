"""The answers: those of `nmt.api`, whatever the model, to the last digit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explored import fresh

from nmt.api import LoadedTranslator
from nmt.recipe import Recipe
from nmt.search.interface import chosen
from nmt.serving.service import Limits, Refusal, Service
from nmt.system import System
from tests.nmt.serving.conftest import DATA, MODEL, OPTIONS

SENTENCE = "one two zebra <b>"
PLAIN = {"attention": "none", "input_feeding": False}
MODELS: dict[str, dict[str, Any]] = {
    "plain": PLAIN, **{score: {"score": score} for score in ("dot", "general", "concat")},
    "location": {"score": "location", "location_length": 9},
    "local-m": {"attention": "local-m", "window": 1}, "local-p": {"attention": "local-p"},
    "both ends": {"bidirectional": True, "bridge": True}, "gru": {"unit": "gru"},
    "rnnsearch": {"architecture": "rnnsearch"},
    "deep fusion": {"architecture": "deep_fusion"},
    "hybrid": {"architecture": "hybrid", "character_embedding_size": 3},
    "transformer": {"architecture": "transformer", "encoder_layers": 1, "decoder_layers": 2,
                    "heads": 2, "inner_size": 7}}
CHANGES: dict[str, dict[str, Any]] = {
    "gru": {"data": {"reverse_source": True}}, "dot": {"data": {"source_end": True}},
    "general": {"search": {"unknown": False}}}
NO_LAYERS = {"rnnsearch": ("layers",), "deep fusion": ("layers",),
             "transformer": ("layers", "embedding_size")}


def service_of(directory: Path, name: str) -> Service:
    """The service of one of MODELS."""
    model = {key: value for key, value in {**MODEL, **MODELS[name]}.items()
             if key not in NO_LAYERS.get(name, ())}
    changes = CHANGES.get(name, {})
    recipe = {**changes, "data": {**DATA, **changes.get("data", {})}, "model": model}
    system = fresh(directory / "run", recipe, System, Recipe)
    return Service(system, chosen(system.recipe.search, 3), Limits())


@pytest.mark.parametrize("name", MODELS)
def test_an_answer_is_what_the_library_says(name: str, tmp_path: Path) -> None:
    service = service_of(tmp_path, name)
    answer = json.loads(json.dumps(service.answer({"text": SENTENCE}), allow_nan=False))
    loaded = LoadedTranslator(service.system)
    expected = loaded.nbest(SENTENCE, 3, beam=3)
    [translations] = service.system.translate([SENTENCE.split()], service_options(service))
    assert [hypothesis["translation"] for hypothesis in answer["nbest"]] == [
        hypothesis.text for hypothesis in expected]
    assert answer["translation"] == expected[0].text
    assert answer["unknown"] == ["zebra", "<b>"] == loaded.unknown(SENTENCE)
    assert any("zebra" in note for note in answer["notes"])
    assert any(translation.words for translation in translations)
    for hypothesis, other, translation in zip(answer["nbest"], expected, translations, strict=True):
        assert (hypothesis["log_p"], hypothesis["score"], hypothesis["finished"]) == other[1:]
        words = [word["word"] for word in hypothesis["words"]]
        assert words == [*translation.words, *["</s>"] * translation.finished]
        log_p = [word["log_p"] for word in hypothesis["words"]]
        assert sum(log_p) == pytest.approx(hypothesis["log_p"], rel=1e-5)
        if translation.words:  # force-decoding wants some
            [forced] = service.system.force([(SENTENCE.split(), translation.unspelled)])
            np.testing.assert_allclose(log_p, np.asarray(forced.steps)[: len(log_p)], atol=1e-5)
        if translation.alignment is None:
            assert hypothesis["attention"] is None and name == "plain"
        else:
            np.testing.assert_allclose(hypothesis["attention"], translation.alignment, atol=1e-5)
            assert len(answer["source"]) == len(hypothesis["attention"][0])


def service_options(service: Service) -> Any:
    """The options of a request without a beam."""
    return service._asked({"text": SENTENCE})[1]


def test_an_ensemble_answers(system: System, tmp_path: Path) -> None:
    other = fresh(tmp_path / "run", {"data": DATA, "model": {**MODEL, "hidden_size": 5}}, System,
                  Recipe)
    both = System.together(["a", "b"], [system, other], "probabilities")
    answer = Service(both, OPTIONS, Limits()).answer({"text": SENTENCE})
    assert answer["translation"] == LoadedTranslator(both).translate(SENTENCE, beam=3)


def test_one_search_where_the_recipe_asks_for_every_beam(system: System) -> None:
    answers = [Service(system, replace(OPTIONS, every_beam=every), Limits()).answer(
        {"text": SENTENCE}) for every in (False, True)]
    assert answers[0] == answers[1]


def test_the_beam_is_the_request_s(system: System) -> None:
    service = Service(system, OPTIONS, Limits(nbest=2))
    for beam, nbest in ((1, 1), (4, 2)):
        answer = service.answer({"text": SENTENCE, "beam": beam})
        assert len(answer["nbest"]) == nbest and answer["search"]["settings"]["beam"] == beam


@pytest.mark.parametrize(("request_", "message"), [
    (None, r'expected an object such as \{"text": "a sentence"\}'), ([], "expected an object"),
    ({"text": 1}, "expected an object"), ({"text": ""}, "text: expected at least one word"),
    ({"text": " \t"}, "text: expected at least one word"),
    ({"text": "one\ntwo"}, "text: expected one sentence, got several lines"),
    ({"text": "one \ud800"}, "half of a surrogate pair"),
    ({"text": "one", "other": 1}, "other: expected no key but text and beam"),
    ({"text": "one " * 9}, "text: expected at most 8 words, got 9"),
    ({"text": "x" * 10_000}, "text: expected at most 60 characters, got 10000"),
    *(({"text": "one", "beam": beam}, "beam: expected an integer from 1 to 20")
      for beam in (0, 21, 1.5, "3", True, None))])
def test_what_is_refused(request_: Any, message: str, system: System) -> None:
    service = Service(system, OPTIONS, Limits(words=8, characters=60))
    with pytest.raises(Refusal, match=message) as refused:
        service.answer(request_)
    assert refused.value.status == 400
    assert service.answer({"text": "one"})["source"] == ["one"]  # its place is free again
