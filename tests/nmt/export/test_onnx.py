"""Recurrent translators that onnxruntime runs: its logits, attention and words are ours."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tiny_run import ROOT, complaint, files_in, nmt, write_corpus, write_recipe

from nmt.data.batches import make_sources
from nmt.data.vocabulary import END
from nmt.search.beam import greedy
from nmt.search.interface import SearchOptions
from nmt.system import System

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime (extra `export`)")
pytest.importorskip("onnx", reason="ONNX (extra `export`)")

RUNS = ROOT / "tests/golden_runs/runs"
COVERED = [  # weights are large, so that every part matters
    "luong", "luong-rnn", "luong-gru", "luong-both-ends", "luong-both-ends-gru", "luong-bridge",
    "luong-no-attention", "luong-no-attention-feeding", "luong-no-feeding", "luong-dot-global",
    "luong-scaled-dot-global", "luong-general-global", "luong-concat-global",
    "luong-concat-identity-global", "luong-additive-global", "luong-shared", "luong-end-token",
    "luong-pieces", "luong-normalised-logits", "luong-lexical",
]
GRU_AFTER = {  # trained here
    "gru-after": {"layers": 2, "bidirectional": True, "bridge": True, "uniform_biases": True},
    "gru-after-no-biases": {"biases": False, "scale": 1.0},
}
REFUSED = {
    "luong-dot-local-p": 'model.attention: expected global or none, got local-p',
    "luong-location-global": "model.score: expected",
    "luong-case-place": "model.factors: expected {}",
    "luong-lexicon": "model.lexicon_epsilon: expected None",
    "rnnsearch": "expected a translator of architecture luong, got RNNSearch",
    "transformer": "expected a translator of architecture luong, got Transformer",
}
STEPS = 8


class Engine:
    """The two graphs, as a program without this project would run them."""

    def __init__(self, directory) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(directory / f"{name}.onnx", options)
            for name in ("encoder", "decoder"))

    def encode(self, source: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
        """The first state."""
        arrays = self.encoder.run(None, {"source": source, "lengths": lengths.astype(np.int32)})
        names = [output.name for output in self.encoder.get_outputs()]
        return dict(zip(names, arrays, strict=True))

    def step(self, tokens: np.ndarray, state: dict[str, np.ndarray]):
        """Logits and the state after a word; and the alignment, if there is one."""
        arrays = self.decoder.run(None, {"tokens": tokens, **state})
        names = [output.name for output in self.decoder.get_outputs()]
        values = dict(zip(names, arrays, strict=True))
        after = {name: values.get(f"next_{name}", old) for name, old in state.items()}
        return values["logits"], after, values.get("alignment")


def trained(name, directory):
    """A run of a gru-after, with large weights."""
    write_corpus(directory)
    model = {"unit": "gru-after", "scale": 0.8} | GRU_AFTER[name]
    recipe = write_recipe(directory / "recipe.yaml", model=model, train={"epochs": 1})
    assert nmt("train", recipe, "--output", directory / "run") == 0
    return directory / "run"


@pytest.fixture(params=[*COVERED, *GRU_AFTER])
def case(request, tmp_path):
    """A run's system, its sources, and the engine of its export."""
    run = trained(request.param, tmp_path) if request.param in GRU_AFTER else RUNS / request.param
    system, directory = System.open(run), tmp_path / "exported"
    assert nmt("export", run, "--format", "onnx", "-o", directory) == 0
    facts = json.loads((directory / "translator.json").read_text())
    ends = request.param == "luong-end-token"
    assert facts == {"target_token": "<2de>" if ends else "", "source_end": ends,
                     "reverse_target": ends}
    assert {"source.vocab", "target.vocab"} <= files_in(directory)
    rng, reverse = np.random.default_rng(3), system.recipe.data.reverse_source
    sentences = [rng.integers(0, len(system.source), n).tolist() for n in (5, 1, 3, 2, 6)]
    return system, make_sources(sentences, reverse, None), sentences, Engine(directory)


def written(sentences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Ids (S, B) in written order, padded, and lengths."""
    lengths = np.array([len(sentence) for sentence in sentences])
    ids = np.zeros((lengths.max(), len(sentences)), np.int64)
    for column, sentence in enumerate(sentences):
        ids[:len(sentence), column] = sentence
    return ids, lengths


def test_logits_and_attention_are_ours(case) -> None:
    """Over several steps of a ragged batch, with any words, to 1e-5 of the largest logit."""
    system, sources, sentences, engine = case
    state = system.model.encode(system.parameters, sources, len(sentences))
    theirs = engine.encode(*written(sentences))
    tokens, rng = np.full(len(sentences), END), np.random.default_rng(4)
    for _ in range(STEPS):
        ours, state, alignment = system.model.step(system.parameters, state, tokens)
        logits, theirs, attention = engine.step(tokens, theirs)
        np.testing.assert_allclose(logits, ours, rtol=0, atol=1e-5 * max(1.0, np.abs(ours).max()))
        assert (alignment is None) == (attention is None)
        if alignment is not None:
            np.testing.assert_allclose(attention, alignment, atol=1e-5)
        tokens = rng.integers(0, len(system.target), len(sentences))


def test_greedy_words_are_ours(case) -> None:
    """The same words to the end marker, or to the limit."""
    system, sources, sentences, engine = case
    options = SearchOptions(length_factor=1e-3, minimum_steps=STEPS)
    ours = [translation.tokens for translation in greedy(
        system.model, system.parameters, sources, options)]
    state, tokens, words = engine.encode(*written(sentences)), np.full(len(sentences), END), []
    for _ in range(STEPS):
        logits, state, _ = engine.step(tokens, state)
        tokens = logits.argmax(axis=1)
        words.append(tokens)
    columns = np.array(words).T.tolist()
    assert ours == [column[:column.index(END)] if END in column else column for column in columns]


@pytest.mark.parametrize("run", REFUSED)
def test_what_the_graphs_do_not_have_is_one_line(run, tmp_path, capsys) -> None:
    said = complaint(capsys, "export", RUNS / run, "--format", "onnx", "-o", tmp_path / "exported")
    assert said.startswith("--format onnx: ") and REFUSED[run] in said and not files_in(tmp_path)
