"""Transformers that CTranslate2 runs: its hypotheses are ours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny_run
from tiny_run import RECIPE, complaint, files_in, nmt, write_corpus, write_recipe

from backend.errors import UserError
from nmt.cli.exporting import FORMATS
from nmt.system import System

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 (extra `export`)")

MODEL = {"architecture": "transformer", "encoder_layers": 2, "decoder_layers": 2,
         "hidden_size": 16, "inner_size": 24, "heads": 2, "dropout": 0.1}
CASES = {
    "pre-norm": {},
    "post-norm": {"model": {"pre_norm": False, "output_bias": False, "encoder_layers": 1}},
    "shared tables": {
        "data": {"shared_vocabulary": True, "source_end": True, "subwords": {"merges": 6}},
        "parametrize": {"tied": dict.fromkeys(("decoder.W_e", "output.W_hy"), "encoder.W_e"),
                        "normalized": {"encoder.W_e": 1.0}}},
    "ScaleNorm": {"model": {"norm": "scale"}},
    "fixed ScaleNorm": {"model": {"norm": "fixed-scale", "pre_norm": False}},
    "RMSNorm": {"model": {"norm": "rms"}},
}
STEPS = 60
RUNS = tiny_run.ROOT / "tests/golden_runs/runs"


def trained(directory, sections):
    """A run that learned half of the toy language, so that beams have something to choose."""
    write_corpus(directory, pairs=300)
    recipe = {**RECIPE, "model": MODEL,
              "train": {**RECIPE["train"], "epochs": 3, "learning_rate": 0.01},
              "evaluate": {**RECIPE["evaluate"], "bleu": False}}
    assert nmt("train", write_recipe(directory / "r.yaml", recipe, **sections), "--output",
               directory / "run") == 0
    return System.open(directory / "run")


def sentences(count):
    """Sentences with words that the model does not know."""
    rng, words = np.random.default_rng(5), [*tiny_run.SOURCE, "seven"]
    return [[words[i] for i in rng.integers(0, len(words), rng.integers(1, 9))]
            for _ in range(count)]


@pytest.mark.parametrize("name", CASES)
def test_its_hypotheses_are_ours(name, tmp_path) -> None:
    """150 sentences, greedy and by a beam of 5: words, log-probabilities and attention."""
    system, directory = trained(tmp_path, CASES[name]), tmp_path / "exported"
    assert nmt("export", tmp_path / "run", "--format", "ctranslate2", "-o", directory) == 0
    engine, read = ctranslate2.Translator(str(directory), intra_threads=1), sentences(150)
    pieces = [list(system.reader.pieces(words)) for words in read]
    for beam in (1, 5):
        options = replace(system.recipe.search, beam=beam, nbest=1, minimum_steps=STEPS)
        ours = [nbest[0] for nbest in system.translate(read, options)]
        theirs = engine.translate_batch(
            pieces, beam_size=beam, length_penalty=0, min_decoding_length=0, return_scores=True,
            max_decoding_length=STEPS, return_attention=True)
        assert [mine.words for mine in ours] == [other.hypotheses[0] for other in theirs]
        assert len({tuple(mine.words) for mine in ours}) > 5
        np.testing.assert_allclose([mine.log_probability for mine in ours],
                                   [other.scores[0] for other in theirs], rtol=1e-4, atol=1e-5)
        for cut, mine, other in zip(pieces, ours, theirs, strict=True):
            if mine.words and beam == 1:  # 4.8.5 mixes up the first row of a beam's
                of_words = mine.alignment[:len(mine.words), :len(cut)]  # the peer omits </s>
                np.testing.assert_allclose(of_words, other.attention[0], atol=1e-4)


@pytest.mark.parametrize("run, message", [
    ("luong", "expected a Transformer, got Translator"),
    ("transformer-countdown", "expected model.target_positions: forward, got countdown"),
    ("transformer-shared", ""),
])
def test_what_it_cannot_compute_is_one_line(run, message, tmp_path, capsys) -> None:
    """A recurrent model, a countdown, and an output directory in use. Nothing is written."""
    output = tmp_path / "exported"
    if not message:
        output.mkdir()
        (output / "mine").touch()
        message = "expected a new or empty directory"
    said = complaint(capsys, "export", RUNS / run, "--format", "ctranslate2", "-o", output)
    assert message in said
    assert files_in(tmp_path) <= {"exported", "exported/mine"}


def test_a_reversed_target_is_refused(tmp_path) -> None:
    system = System.open(RUNS / "transformer")
    data = replace(system.recipe.data, reverse_target=True)
    system.recipe = replace(system.recipe, data=data)
    with pytest.raises(UserError, match=r"expected data\.reverse_target: false"):
        FORMATS["ctranslate2"](system, tmp_path / "exported")


@pytest.mark.parametrize("run, name", [("transformer", "ctranslate2"), ("luong", "onnx")])
def test_without_its_package_it_says_how_to_install_it(run, name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(f"nmt.export.{name}.find_spec", lambda package: None)
    said = complaint(capsys, "export", RUNS / run, "--format", name, "-o", tmp_path / "exported")
    assert said.startswith(f"--format {name}: {name} is not installed (pip install -e '.[export]'")
