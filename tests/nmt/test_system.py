"""Training a translator in a directory, opening it again, translating with it."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tiny_run import Crash, CrashAt, files_in, write_recipe

from backend.errors import UserError
from nmt.data.batches import make_sources
from nmt.data.corpora import load_corpus
from nmt.models.contract import Tables
from nmt.models.registry import make_model
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.search.beam import greedy
from nmt.search.interface import SearchOptions
from nmt.system import System, score_bleu
from nmt.training import checkpoint
from nmt.training.log import read_log
from nmt.training.progress import Observer
from nmt.training.run import BEST, LAST, LOG
from nmt.translator_training import build_vocabularies, train

SENTENCES = [line.split() for line in
             ("one two three", "six", "", "four four zero one two", "two unseen five")]
BEAM = SearchOptions(beam=3, nbest=2)


def recipe_of(directory, **sections):
    return load_recipe(Recipe, write_recipe(directory / "r.yaml", **sections))


def assert_same_state(directory, other):
    """Bit for bit: parameters and moments, the state of both generators, where training stands."""
    ours, theirs = checkpoint.load(directory / LAST), checkpoint.load(other / LAST)
    assert ours.arrays.keys() == theirs.arrays.keys()
    for name, array in ours.arrays.items():
        np.testing.assert_array_equal(array, theirs.arrays[name], err_msg=name)
    for key in ("counters", "schedule", "data_rng", "dropout_rng"):
        assert ours.metadata["training"][key] == theirs.metadata["training"][key], key


@pytest.mark.parametrize("step", [5, 14])  # ten updates an epoch, a checkpoint every two
def test_a_run_that_crashed_within_an_epoch_resumes_exactly(corpus, resumed, step) -> None:
    recipe = recipe_of(corpus, train={"checkpoint_every": 2})
    expected, _ = resumed(recipe, step)
    assert_same_state(corpus / "cut", corpus / "whole")
    plain = train(replace(recipe, train=replace(recipe.train, checkpoint_every=0)),
                  corpus / "plain", Observer())
    np.testing.assert_array_equal(plain.parameters["output.W_hy"],
                                  expected.parameters["output.W_hy"])


def test_a_run_that_never_came_to_a_checkpoint_leaves_nothing(corpus) -> None:
    before = files_in(corpus)
    recipe = recipe_of(corpus)
    with pytest.raises(Crash):
        train(recipe, corpus / "new", CrashAt(3))
    assert files_in(corpus) == before
    (corpus / "empty").mkdir()
    with pytest.raises(Crash):
        train(recipe, corpus / "empty", CrashAt(3))
    assert files_in(corpus) == before | {"empty"}  # it was the user's
    with pytest.raises(Crash):
        train(recipe, corpus / "late", CrashAt(13))  # in the second epoch
    assert (corpus / "late" / LAST).exists()


def test_a_resumed_run_must_have_the_same_data(corpus) -> None:
    train(recipe_of(corpus, train={"epochs": 1}), corpus / "m", Observer())
    (corpus / "train.de").write_text((corpus / "train.de").read_text("utf-8").replace(
        "eins", "zwei", 1), "utf-8")
    with pytest.raises(UserError, match=r"last.safetensors: cannot resume: its 'data' is"):
        train(recipe_of(corpus), corpus / "m", Observer(), resume=True)


def test_vocabularies_are_built_from_the_training_pairs_alone(corpus) -> None:
    (corpus / "dev.en").write_text("only in dev\n" * 8)
    recipe = recipe_of(corpus, data={"max_vocabulary": 5})
    vocabularies = build_vocabularies(load_corpus(recipe.data), recipe)
    assert len(vocabularies["source"]) == len(vocabularies["target"]) == 5
    assert "dev" not in vocabularies["source"].words


@pytest.mark.parametrize("data", [{"min_frequency": 10000}, {"max_vocabulary": 2}])
def test_a_side_of_which_no_word_is_left_is_refused(corpus, data) -> None:
    with pytest.raises(UserError, match=r"data.min_frequency: expected a word of the source that "
                                        r"occurs .*data\.max_vocabulary.*, got none"):
        train(recipe_of(corpus, data=data), corpus / "new", Observer())
    assert not (corpus / "new").exists()


def test_annotated_symbols_survive_the_vocabulary_cut(corpus) -> None:
    lines = (corpus / "train.de").read_text("utf-8").splitlines()
    lines[:2] = ["eins <unkpos_-7>", "<unkpos_null> <unk>"]
    (corpus / "train.de").write_text("".join(line + "\n" for line in lines), "utf-8")
    recipe = recipe_of(corpus, data={"max_vocabulary": 5, "min_frequency": 2})
    target = build_vocabularies(load_corpus(recipe.data), recipe)["target"]
    assert len(target) == 5 + 2 and {"<unkpos_-7>", "<unkpos_null>"} <= set(target.words)


def test_open_gives_back_what_was_trained(trained) -> None:
    last = checkpoint.load(trained / "model" / LAST)
    twice = {name: 2 * array for name, array in last.arrays.items()}
    checkpoint.save(trained / "model" / BEST, twice, last.metadata)
    for file, factor in ((BEST, 2), (LAST, 1)):  # the best, or the last where there is no best
        system = System.open(trained / "model")
        for name, array in last.select(checkpoint.PARAMETERS).items():
            np.testing.assert_array_equal(system.parameters[name], factor * array)
        (trained / "model" / file).unlink()


def test_training_taught_it_to_translate(trained) -> None:
    system = System.open(trained / "model")
    corpus = load_corpus(system.recipe.data)
    nbests = system.translate(corpus.dev.sources, SearchOptions())
    assert score_bleu(system, corpus.dev, nbests).score > 50
    assert system.perplexity(corpus.dev.pairs) < 2


def test_translations_do_not_depend_on_their_company(trained) -> None:
    system = System.open(trained / "model")
    together = system.translate(SENTENCES, BEAM)
    for sentence, nbest in zip(SENTENCES, together, strict=True):
        (alone,) = system.translate([sentence], BEAM)
        assert [t.words for t in alone] == [t.words for t in nbest]
    assert [len(nbest) for nbest in together] == [2, 2, 1, 2, 2]
    (empty,) = together[2]
    assert empty.words == [] and system.text(empty) == ""


def test_the_probability_of_a_translation_is_the_models(trained) -> None:
    """The search and the training loss read words, ids and the source's direction alike."""
    system = System.open(trained / "model")
    for sentence in SENTENCES[:2]:
        for best in system.translate([sentence], BEAM)[0]:
            loss = np.log(system.perplexity([(sentence, best.words)])) * (len(best.words) + 1)
            np.testing.assert_allclose(best.log_probability, -loss, rtol=1e-4)


def test_alignment_columns_are_in_reading_order(trained) -> None:
    """The weight of a word is in its column, although the encoder read the words in reverse."""
    system = System.open(trained / "model")
    assert system.recipe.data.reverse_source
    sentence = SENTENCES[3]
    ((ours,),) = system.translate([sentence], SearchOptions())
    model = make_model(system.recipe.model, Tables((len(system.source.words),),
                                                   len(system.target.words)))
    sources = make_sources([system.source.ids(sentence)[::-1]], False)
    (by_steps,) = greedy(model, system.parameters, sources, SearchOptions())
    assert by_steps.alignment is not None and ours.alignment is not None
    for column in range(len(sentence)):  # the model alone has columns in the order of its steps
        np.testing.assert_allclose(ours.alignment[:, column], by_steps.alignment[:, 4 - column],
                                   rtol=1e-5)
    assert not np.allclose(ours.alignment, ours.alignment[:, ::-1])


def test_samples_vary_with_the_generator_only(trained) -> None:
    system = System.open(trained / "model")
    draws = [system.sample([SENTENCES[4]] * 20, SearchOptions(), 5.0, np.random.default_rng(seed))
             for seed in (1, 1, 2)]
    words = [[nbest[0].words for nbest in draw] for draw in draws]
    assert words[0] == words[1] != words[2]
    cold = system.sample(SENTENCES, SearchOptions(), 1e-3, np.random.default_rng(1))
    best = system.translate(SENTENCES, SearchOptions())
    assert [n[0].words for n in cold] == [n[0].words for n in best]


def swap_last_lines(path):
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines[:-2], lines[-1], lines[-2]]) + "\n", "utf-8")


def drop_last_line(path):
    path.write_text("\n".join(path.read_text("utf-8").splitlines()[:-1]) + "\n", "utf-8")


DAMAGE = [
    ("source.vocab", swap_last_lines, r"source\.vocab: this is not the vocabulary that the model"),
    ("target.vocab", drop_last_line, r"target\.vocab: this is not the vocabulary that the model"),
    ("target.vocab", lambda path: path.write_text("a\n"), r"target\.vocab:1: expected <unk>"),
    ("target.vocab", lambda path: path.write_bytes(b"<unk>\n</s>\n\xff\n"), r"vocab:3: .*UTF-8"),
    ("source.vocab", lambda path: path.unlink(), r"model: expected the run directory of a "
                                                 r"translator, found no source\.vocab in it"),
    ("recipe.yaml", lambda path: path.write_text("model: 3\n"), r"recipe\.yaml:1: model: expected"),
    (BEST, lambda path: path.write_bytes(path.read_bytes()[:-9]), r"best\.safetensors: .*damaged"),
]


@pytest.mark.parametrize(("file", "damage", "message"), DAMAGE)
def test_a_damaged_model_directory_is_refused(trained, file, damage, message) -> None:
    damage(trained / "model" / file)
    with pytest.raises(UserError, match=message) as caught:
        System.open(trained / "model")
    assert "\n" not in str(caught.value)


def test_what_is_no_model_directory_is_refused(trained) -> None:
    for path, content in ((trained / "absent", "no such directory"), (trained / "r.yaml", "a file"),
                        (trained, "no recipe.yaml in it")):
        with pytest.raises(UserError, match=f"{re.escape(str(path))}: .*translator, .*{content}"):
            System.open(path)
    with pytest.raises(UserError, match=r"best.safetensors: expected a translator, found a lang"):
        System.open(trained / "lm")
    shutil.copy(trained / "lm" / BEST, trained / "model" / BEST)
    with pytest.raises(UserError, match=r"expected a translator, found a language model"):
        System.open(trained / "model")
    for file in (BEST, LAST):
        (trained / "model" / file).unlink()
    with pytest.raises(UserError, match=r"last\.safetensors: expected a checkpoint file, found no"):
        System.open(trained / "model")


@pytest.mark.parametrize("occupied", ["r.yaml", "notes"])
def test_a_directory_in_use_is_left_alone(corpus, occupied) -> None:
    recipe = recipe_of(corpus)
    (corpus / "out").mkdir()
    (corpus / "out" / occupied).write_text("mine")
    with pytest.raises(UserError, match=f"a new or empty directory, found {occupied} in it"):
        train(recipe, corpus / "out", Observer())
    assert files_in(corpus / "out") == {occupied}
    assert (corpus / "out" / occupied).read_text() == "mine"


@pytest.mark.parametrize("model, expected", [
    ({"score": "location", "location_length": 2},
     r"model\.location_length: training sources of more than 2 words: \d+ of \d+"),
    ({"score": "location", "location_length": 6}, None),
    ({"attention": "local-m", "window": 3}, r"model\.window: 2 x 3 \+ 1 words hold any training "),
    ({"attention": "local-m", "window": 1}, None), ({}, None)])
def test_what_attention_by_position_cannot_do_is_noted_once(corpus, model, expected) -> None:
    """The note is printed and logged when the run begins, and not when it is resumed."""
    class Notes(Observer):
        def __init__(self) -> None:
            self.texts: list[str] = []

        def on_note(self, text: str) -> None:
            self.texts.append(text)

    recipe = load_recipe(Recipe, write_recipe(corpus / "r.yaml", model=model))
    first, second = Notes(), Notes()
    train(recipe, corpus / "run", first)
    longer = replace(recipe, train=replace(recipe.train, epochs=recipe.train.epochs + 1))
    train(longer, corpus / "run", second, resume=True)
    logged = [record["text"] for record in read_log(corpus / "run" / LOG)
              if record["event"] == "note"]
    assert second.texts == [] and logged == first.texts
    assert len(logged) == (expected is not None)
    assert expected is None or re.match(expected, logged[0])
