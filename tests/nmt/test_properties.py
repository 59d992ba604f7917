"""Properties of any recipe, any text and any batch; hypothesis searches for counterexamples."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from literal import dense
from tiny_run import nmt

from backend.errors import UserError
from nmt import language_models
from nmt.data.corpora import EvaluationSet, ParallelCorpus
from nmt.data.sources import joined
from nmt.data.tokenise import TOKENISERS, tokeniser
from nmt.data.vocabulary import Vocabulary
from nmt.models.registry import MODELS
from nmt.recipe import AnyRecipe, kind_of
from nmt.recipe.file import as_text, load_recipe
from nmt.run_directory import RunDirectory
from nmt.system import System
from nmt.training.progress import Observer
from nmt.translator_training import build_vocabularies, train

WORDS = "a bb c ddd e ff".split()  # the last two are not in the vocabularies
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=5)
TRAIN = {
    "optimizer": ("sgd", "adam", "adadelta"), "schedule": ("thesis", "plateau", "constant"),
    "learning_rate": (0.1, 1e-30, 1e6), "max_norm": (5.0, "null", 1e-30),
    "batch_size": (2, 1, 10**6), "sorted_within": (1, 64), "epochs": (1, 0.5, 2),
    "checkpoint_every": (0, 1), "log_every": (1, 50), "halve_every": (1.0, 1e-6),
    "seed": (1, 0, 2**63 - 1),
}  # fmt: skip
OTHERS = {
    "data.reverse_source": ("no", "yes"), "data.source_end": ("no", "yes"),
    "data.max_characters": (200, 1), "search.beam": (1, 3), "search.unknown": ("yes", "no"),
    "search.length_normalisation": (0, 20), "evaluate.bleu": ("no", "yes"),
    "evaluate.batch_size": (64, 1), "parametrize.frozen": ("[]", "['*W_e']"),
}  # fmt: skip
SETTINGS = {"suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much,
                                      HealthCheck.function_scoped_fixture], "deadline": None}


@st.composite
def overrides(draw, architecture: str, chosen: tuple[str, ...] = ("model", "train", "other")):
    """Values of a few keys, each one that its key may have by itself."""
    options = {}
    if "model" in chosen:
        tiny = MODELS[architecture].variants()["tiny"].choices
        options |= {f"model.{name}": values for name, values in tiny.items()}
    if "train" in chosen:
        options |= {f"train.{name}": values for name, values in TRAIN.items()}
    if "other" in chosen and MODELS[architecture].sources:
        options |= OTHERS
    names = draw(st.lists(st.sampled_from(sorted(options)), unique=True, max_size=8))
    drawn = {name: draw(st.sampled_from(options[name])) for name in names}
    sizes = {name: values[0] for name, values in options.items() if name.endswith("_size")
             and name.startswith("model")}
    sizes |= {"model.layers": 1} if "model.layers" in options else {}
    return [f"--{name}={'null' if value is None else value}"
            for name, value in (sizes | drawn).items()]


def recipe_of(architecture: str, given, directory: Path):
    """The recipe, if the values go together; a refusal is one line that names a key."""
    sections = "text: {train: t, dev: d, streams: 2, length: 3, min_frequency: 2}" \
        if not MODELS[architecture].sources else (
            "data: {train_source: a, train_target: b, dev_source: c, dev_target: d, "
            + ("train_second_source: e, dev_second_source: f, "
               if MODELS[architecture].sources > 1 else "") +
            "tokenise: none, min_frequency: 2}\nevaluate: {bleu: false}\nsearch: {beam: 1}")
    path = directory / "r.yaml"
    path.write_text(f"{sections}\nmodel: {{architecture: {architecture}}}\n")
    try:
        return load_recipe(AnyRecipe, path, given)
    except UserError as error:
        assert str(error).startswith(("override: ", f"{path}: ")), str(error)
        return None


def corpus_of(pairs, architecture: str) -> ParallelCorpus:
    """The pairs to train and to validate on, after two of each word of the vocabularies; a second
    source is the first backwards, and a word less."""
    pairs = [(list(x), list(y)) for x, y in pairs] + [(WORDS[:4], WORDS[:4])] * 2
    if MODELS[architecture].sources > 1:
        pairs = [(joined([x, x[:0:-1] or x]), y) for x, y in pairs]
    dev = EvaluationSet([x for x, _ in pairs], [" ".join(y) for _, y in pairs], pairs)
    return ParallelCorpus(pairs, dev, None, 0, 0)


def assert_round_trip(recipe, directory: Path) -> None:
    """Written with every default filled in and read again it is the same recipe."""
    path = directory / "again.yaml"
    path.write_text(as_text(recipe), "utf-8")
    assert load_recipe(kind_of(recipe_architecture(recipe)), path) == recipe


def recipe_architecture(recipe) -> str:
    return next(name for name, architecture in MODELS.items()
                if type(recipe.model) is architecture.config)


@pytest.mark.parametrize("architecture", [name for name in MODELS if MODELS[name].sources])
@settings(max_examples=5, **SETTINGS)
@given(data=st.data())
def test_any_recipe_that_validates_trains_and_opens_as_it_was(architecture, data) -> None:
    with TemporaryDirectory() as name:
        directory = Path(name)
        recipe = recipe_of(architecture, data.draw(overrides(architecture)), directory)
        assume(recipe is not None)
        assert_round_trip(recipe, directory)
        corpus = corpus_of(data.draw(PAIRS), architecture)
        try:
            system = train(recipe, directory / "run", Observer(), corpus=corpus)
        except UserError as error:  # too large a step, or what no parameter is called
            assert "is not finite" in str(error) or str(error).startswith("parametrize.")
            return
        opened = System.open(directory / "run")
        assert opened.recipe == recipe
        for parameter, array in system.parameters.items():
            np.testing.assert_array_equal(array, opened.parameters[parameter], err_msg=parameter)


@settings(max_examples=5, **SETTINGS)
@given(data=st.data())
def test_any_language_model_that_validates_trains_and_opens_as_it_was(data) -> None:
    with TemporaryDirectory() as name:
        directory = Path(name)
        recipe = recipe_of("language_model", data.draw(overrides("language_model")), directory)
        assume(recipe is not None)
        assert_round_trip(recipe, directory)
        lines = [" ".join(words) for words in data.draw(st.lists(SENTENCES, min_size=2))]
        text = "".join(line + "\n" for line in [*lines, " ".join(WORDS[:4] * 2)])
        for file in ("t", "d"):
            (directory / file).write_text(text)
        text_section = replace(recipe.text, train=str(directory / "t"), dev=str(directory / "d"))
        recipe = replace(recipe, text=text_section)
        try:
            language_models.train(recipe, directory / "run", Observer())
        except UserError as error:
            assert "is not finite" in str(error) or str(error).startswith("parametrize.")
            return
        assert language_models.LanguageSystem.open(directory / "run").recipe == recipe


@pytest.mark.parametrize("architecture", [name for name in MODELS if MODELS[name].sources])
@settings(max_examples=6, **SETTINGS)
@given(data=st.data())
def test_a_batch_s_loss_and_gradients_are_those_of_its_sentences(architecture, data) -> None:
    """Whatever the configuration and the lengths; without the noise that is drawn for a batch."""
    with TemporaryDirectory() as name:
        recipe = recipe_of(architecture, data.draw(overrides(architecture, ("model",))), Path(name))
    assume(recipe is not None)
    corpus = corpus_of(data.draw(PAIRS), architecture)
    system = System.create(recipe, build_vocabularies(corpus, recipe))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    parameters = {name: rng.uniform(-0.8, 0.8, weight.shape)
                  for name, weight in system.model.weights().items()}

    def computed(pairs):
        (batch,) = system.batches(pairs, len(pairs)).in_order()
        loss, cache = system.model.loss(parameters, batch)
        return float(loss), {name: dense(gradient)
                             for name, gradient in system.model.backward(cache).items()}

    loss, gradients = computed(corpus.train)
    single = [computed([pair]) for pair in corpus.train]
    np.testing.assert_allclose(loss, sum(cost for cost, _ in single), rtol=1e-11)
    for name, gradient in gradients.items():
        expected = sum(np.asarray(sentence_gradients[name]) for _, sentence_gradients in single)
        np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-11, err_msg=name)


# --- text -----------------------------------------------------------------------------------------

ANY = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)
LINES = st.lists(ANY | st.lists(ANY, max_size=4).map(" ".join), max_size=12)


def untrained(name: str, lines, directory: Path) -> Path:
    """The run directory of a translator whose vocabularies have the words of the lines."""
    recipe = recipe_of("luong", ["--data.min_frequency=1", f"--data.tokenise={name}",
                                 "--model.hidden_size=4", "--model.embedding_size=4",
                                 "--model.layers=1", "--search.minimum_steps=3"], directory)
    words = sorted({word for line in lines for word in tokeniser(name, "en").tokenise(line)}
                   - {"<unk>", "</s>"})
    vocabularies = {side: Vocabulary(words) for side in ("source", "target")}
    system = System.create(recipe, vocabularies)
    for parameter in system.parameters.values():
        parameter *= 20  # so that more than one word is written
    RunDirectory(directory / "run", recipe, resume=False).write(system, {"epoch": 1})
    return directory / "run"


@pytest.mark.parametrize("name", TOKENISERS)
@pytest.mark.parametrize("options", [(), ("--sample", "3"), ("--replace-unk",)])
@settings(max_examples=3, **SETTINGS)
@given(lines=LINES, known=LINES, ends=st.sampled_from(["\n", "\r\n"]))
def test_any_text_comes_out_line_by_line(name, options, lines, known, ends) -> None:
    """Words of a vocabulary, and those to translate, may be anything but a space and a line end.
    """
    text = "".join(line + ends for line in lines).encode()
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    before = sys.stdin
    with TemporaryDirectory() as directory, redirect_stdout(out):
        run = untrained(name, known, Path(directory))
        sys.stdin = io.TextIOWrapper(io.BytesIO(text), "utf-8")
        try:
            assert nmt("translate", "--model", run, *options) == 0
        finally:
            sys.stdin = before
    out.flush()
    assert out.buffer.getvalue().count(b"\n") == text.count(b"\n")
