"""`nmt logits`, and `nmt score --against`."""

import numpy as np
import pytest
from tiny_run import RECIPE, captured, complaint, write_recipe

from nmt.analysis.logits import binned, lexicon, logits_of
from nmt.evaluation.scores import bleu, compare, metrics_of
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.search.force import force_decode
from nmt.system import System
from nmt.training.progress import Observer
from nmt.translator_training import train

R = 2.5  # length of h~, h^l and of the rows of both tables


@pytest.fixture
def run(corpus):
    """The directory of a run with fixnorm and the lexical module, and the system."""
    recipe = write_recipe(
        corpus / "r.yaml", data={"reverse_source": True},
        parametrize={"normalized": {"output.W_hy": R, "output.W_l": R}},
        model={"lexical": True, "output_norm": R, "output_bias": True})
    return corpus / "run", train(load_recipe(Recipe, recipe), corpus / "run", Observer())


def test_steps(run, corpus, capsys) -> None:
    """The parts and the bias add up to search's logits; with fixnorm all norms are r."""
    directory, system = run
    pair = (["one", "two"], system.target.tokens([3, 2]))
    steps = logits_of(system, pair, 1)
    forced = force_decode(system.model, system.parameters,
                          next(system.batches([pair], 1).in_order()))[0]
    assert [len(step) for step in steps] == [2, 2, 2]
    for logits, log_p in zip(steps, forced.steps, strict=True):
        assert [logit.chosen for logit in logits] == [True, False]
        assert np.log(logits[0].probability) == pytest.approx(log_p, rel=1e-4)
        gap = logits[0].value - logits[1].value
        ratio = logits[0].probability / logits[1].probability
        assert gap == pytest.approx(np.log(ratio), rel=1e-6)
        for logit in logits:
            for summand in (logit.output, logit.lexical):
                assert (summand.norm, summand.length) == (pytest.approx(R, rel=1e-5),) * 2
    (corpus / "x").write_text("one two\n")
    table = corpus / "steps.tsv"
    captured(capsys, "logits", "steps", corpus / "x", "--model", directory, "-o", table)
    head, *rows = (line.split("\t") for line in table.read_text().splitlines())
    assert head[:5] == ["step", "word", "chosen", "p", "logit"] and head[-2:] == ["W_l h_l", "bias"]
    assert {len(row) for row in rows} == {len(head)} and rows[0][2] == "*"
    assert "W_l h_l" in captured(capsys, "logits", "steps", corpus / "x", "--model", directory).out


def test_steps_of_an_encoder_decoder(corpus) -> None:
    """The model of Nair and Shah, another architecture with output.W_hy."""
    model = {"architecture": "rnnsearch", "layer": "none", "deep_state": "now",
             "hidden_size": 4, "embedding_size": 4}
    recipe = write_recipe(corpus / "r.yaml", RECIPE | {"model": model})
    system = train(load_recipe(Recipe, recipe), corpus / "run", Observer())
    pair = (["one", "two"], system.target.tokens([3, 2]))
    forced = force_decode(system.model, system.parameters,
                          next(system.batches([pair], 1).in_order()))[0]
    steps = [logits[0].probability for logits in logits_of(system, pair, 1)]
    assert np.log(steps) == pytest.approx(forced.steps, rel=1e-4)


def test_lexicon(run, corpus, capsys) -> None:
    """p of Table 3.9 is the module's prediction for a word with all of the attention."""
    directory, system = run
    word = system.source.words[3]
    ((name, actual),) = lexicon(system, [word], len(system.target))
    p = {k: np.asarray(v, float) for k, v in system.parameters.items()}
    f = np.tanh(p["encoder.W_e"][3])
    h = np.tanh(p["lexical.W"] @ f) + f
    s = p["output.W_l"] @ (R * h / np.linalg.norm(h)) + 0.5 * p["output.b"]
    expected = np.exp(s) / np.exp(s).sum()
    assert name == word and sum(q for _, q in actual) == pytest.approx(1.0)
    assert [q for _, q in actual] == pytest.approx(sorted(expected)[::-1], rel=1e-4)
    table = corpus / "lexicon.tsv"
    captured(capsys, "logits", "lexicon", "--model", directory, "--top", "2", "-o", table)
    assert len(table.read_text().splitlines()) == 1 + 2 * len(system.source)
    assert "got nowhere" in complaint(capsys, "logits", "lexicon", "nowhere", "--model", directory)


def test_norms(run, corpus, capsys) -> None:
    directory, system = run
    table = corpus / "norms.tsv"
    captured(capsys, "logits", "norms", "--model", directory, "-o", table)
    head, *rows = (line.split("\t") for line in table.read_text().splitlines())
    assert head == ["rank", "word", "norm", "bias", "lexical norm"]
    assert [row[1] for row in rows] == list(system.target.words[2:])
    assert {(row[2], row[4]) for row in rows} == {("2.5000", "2.5000")}
    pytest.importorskip("matplotlib")
    picture = corpus / "norms.png"
    captured(capsys, "logits", "norms", "--model", directory, "--bin", "2", "--png", picture)
    assert picture.stat().st_size > 5000


def test_bins() -> None:
    middles, ranges = binned(np.array([3.0, 1.0, 2.0, 5.0]), 3)
    assert middles.tolist() == [1.0, 3.0]
    assert ranges.tolist() == [[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]


def test_models_without_the_module(trained, capsys) -> None:
    assert System.open(trained / "model").recipe.model.lexical is False
    assert "with the lexical module, got one without" in complaint(
        capsys, "logits", "lexicon", "--model", trained / "model")
    (trained / "x").write_text("one\n")
    assert "from 1 to 1, got 2" in complaint(
        capsys, "logits", "steps", trained / "x", "--line", "2", "--model", trained / "model")
    out = captured(capsys, "logits", "steps", trained / "x", "--model", trained / "model").out
    assert "|W|" in out and "|W_l|" not in out


def test_paired_bootstrap(tmp_path, capsys) -> None:
    """A system does not differ from itself; a right system differs from a wrong one."""
    references = [f"a b c d e {i}" for i in range(40)]
    wrong = [line.replace("c", "x") if i % 2 else line for i, line in enumerate(references)]
    ((metric, signature, (baseline, same, right)),) = compare(
        [wrong, wrong, references], [references], metrics_of(["bleu"], "none"), samples=200)
    assert metric == "BLEU"
    assert baseline.p is None and same.p > 0.9 and right.p < 0.02
    assert baseline.score == bleu(wrong, references, "none").score and right.score > 99.99
    assert "bs:200" in signature and "seed:" in signature
    for name, lines in (("ref", references), ("wrong", wrong)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    out = captured(capsys, "score", tmp_path / "wrong", tmp_path / "ref", "--against",
                   tmp_path / "ref", "--samples", "50").out
    assert "bs:50" in out and "baseline" in out and "p = 0.0" in out.splitlines()[-1]
    assert out.count("paired bootstrap") == 2  # BLEU and chrF


def test_text_in_tokens_is_named_once(tmp_path, capsys) -> None:
    references = [f"a b c d e {i} ." for i in range(120)]
    (tmp_path / "ref").write_text("\n".join(references) + "\n")
    command = ("score", tmp_path / "ref", tmp_path / "ref", "--against", tmp_path / "ref",
               "--samples", "20")
    told = captured(capsys, *command).err
    assert told.count("\n") == 1 and "of 120 lines, 120 have" in told and "--tokenize none" in told
    assert captured(capsys, *command, "--tokenize", "none").err == ""
