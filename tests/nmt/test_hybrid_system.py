"""The hybrid as a user runs it: training, resuming, commands; it never writes an unknown word."""

import json
import re
import shutil
from dataclasses import replace
from io import BytesIO, TextIOWrapper

import numpy as np
import pytest
from tiny_run import RECIPE, captured, complaint, nmt, printed, write_corpus, write_recipe

from backend.errors import UserError
from nmt.data.corpora import load_corpus
from nmt.data.rare_words import UNK
from nmt.data.vocabulary import END, UNKNOWN
from nmt.evaluation.scores import perplexity
from nmt.pages.search import searched
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training.progress import Observer
from nmt.translator_training import train

MODEL = {"architecture": "hybrid", "layers": 1, "hidden_size": 8, "embedding_size": 6,
         "character_embedding_size": 5, "dropout": 0.1, "character_dropout": 0.1,
         "output_bias": True}
SENTENCES = [["one", "two"], ["zanzibar"], [], ["six", "five", "ünë", "one"]]


def recipe_of(directory, *overrides, **model):
    """Five words a language, two of them the symbols: most words are rare."""
    path = write_recipe(directory / "h.yaml", {**RECIPE, "model": MODEL | model},
                        data={"max_vocabulary": 5}, train={"checkpoint_every": 2})
    return load_recipe(Recipe, path, overrides)


@pytest.fixture(scope="module")
def _whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hybrid")
    write_corpus(directory)
    train(recipe_of(directory), directory / "whole", Observer())
    return directory / "whole"


@pytest.fixture
def hybrid(corpus, _whole):
    """A recipe, and a system trained by it in `whole`."""
    shutil.copytree(_whole, corpus / "whole")
    return recipe_of(corpus), System.open(corpus / "whole", "last")


def eager_of(system):
    """The same system with a more probable `<unk>`."""
    bias = system.parameters["output.b"].copy()
    bias[UNKNOWN] += 5.0
    return replace(system, parameters={**system.parameters, "output.b": bias})


def words_of(system, options):
    """Every word of every translation."""
    return [word for nbest in system.translate(SENTENCES, options) for translation in nbest
            for word in translation.words]


def test_frequent_words_are_spelled_in_training_alone_and_drawn_anew(corpus, hybrid, resumed):
    recipe = recipe_of(corpus, character_sample=0.5)
    system = train(recipe, corpus / "sampled", Observer())
    pairs = load_corpus(recipe.data).train
    batches, rng = system.training_batches(pairs), np.random.default_rng(1)

    def spelled(keys):
        return [sorted(int(place) for group in batches.batch(key).target.characters
                       for place in group.places) for key in keys]

    first, keys = spelled(batches.epoch(rng)), batches.epoch(rng)
    assert spelled(keys) == spelled(keys) != first
    plain = system.batches(pairs, recipe.train.batch_size)
    added = [len(places) - sum(len(group.places) for group in plain.batch(key).target.characters)
             for key, places in zip(keys, spelled(keys), strict=True)]
    assert sum(added) > len(keys) // 2
    resumed(recipe, whole=system)
    assert any(not np.array_equal(parameter, hybrid[1].parameters[name])
               for name, parameter in system.parameters.items())


@pytest.mark.parametrize("options", [
    SearchOptions(), SearchOptions(beam=4, nbest=4), SearchOptions(beam=2, unknown=False)])
def test_no_unknown_word_is_written(hybrid, options):
    """Also by a model that was changed to write it everywhere."""
    _, system = hybrid
    eager = eager_of(system)
    for translator in (system, eager):
        words = words_of(translator, options)
        assert UNK not in words and "" not in words
    spelled = [t.spelled for nbest in eager.translate(SENTENCES, options) for t in nbest]
    assert any(spelled) is options.unknown


def test_perplexities_are_of_words_and_of_characters(hybrid):
    """By hand, from the two losses of one batch; the boundary is a character."""
    _, system = hybrid
    pairs = [(["one", "two"], ["eins", "zwei"]), (["four"], ["fünf", "null", "xy"])]
    batch = system.batches(pairs, 2).batch([0, 1])
    cache = system.model.loss(system.parameters, batch)[1]
    rare = [word for _, target in pairs for word in target if word not in system.target.words]
    assert rare and "xy" in rare
    assert system.perplexities(pairs) == pytest.approx({
        "perplexity": perplexity(float(cache.losses.words), 2 + 3 + 2),
        "character_perplexity": perplexity(float(cache.losses.characters),
                                           sum(len(word) + 1 for word in rare))})
    known = [(["one"], [system.target.words[2]])]
    assert system.perplexities(known).keys() == {"perplexity"}


def test_rare_source_words_are_read_by_their_characters(hybrid):
    """Two words outside the vocabulary are told apart; without characters they are not."""
    recipe, system = hybrid
    rare = [[word] for word in ("zanzibar", "sansibar")]
    assert all(UNKNOWN in system.source.ids(sentence) for sentence in rare)
    first, other = (nbest[0].log_probability for nbest in system.translate(rare, SearchOptions()))
    assert first != other
    blind = replace(recipe.model, source_characters=False)
    plain = System.create(replace(recipe, model=blind), {
        name: vocabulary for name, vocabulary in system.vocabularies.items()
        if name != "source_characters"})
    first, other = (nbest[0].log_probability for nbest in plain.translate(rare, SearchOptions()))
    assert first == other


def test_the_vector_of_a_word_is_what_the_encoder_reads(hybrid):
    """A known word's vector is a row of the table, a rare word's is computed from its letters."""
    _, system = hybrid
    known = system.source.words[2]
    values, known_words = system.word_vectors([known, "zanzibar", "sansibar", "zanzibar"])
    np.testing.assert_array_equal(values[0], system.parameters["encoder.W_e"][2])
    assert known_words.all() and (values[1] != values[2]).any()
    np.testing.assert_allclose(values[1], values[3], rtol=1e-6)


def evaluated(capsys, corpus, *options):
    """Numbers in the table of `nmt evaluate` on the dev set, by row, a system after another."""
    capsys.readouterr()
    assert nmt("evaluate", corpus / "dev.en", corpus / "dev.de", *options) == 0
    rows = re.findall(r"^(\w[\w ]*?)  +((?:[\d.]+|-)(?: +(?:[\d.]+|-))*)$",
                      capsys.readouterr().out, re.MULTILINE)
    return {name: values.split() for name, values in rows}


def test_an_evaluation_has_the_perplexity_of_characters(corpus, hybrid, capsys):
    """And its outputs side by side, with `<unk>` and with the spelled words."""
    rows = evaluated(capsys, corpus, "--model", corpus / "whole", "--output", corpus / "e")
    assert rows["unknown words"] == ["0"] and float(rows["character perplexity"][0]) > 1
    spelled = int(rows["spelled words"][0])
    (before, after) = ([line for line in (corpus / "e/outputs.txt").read_text().splitlines()
                        if line.startswith(label)] for label in ("whole ", "  spelled "))
    assert spelled == sum(line.split().count(UNK) for line in before) > 0
    assert after and UNK not in "".join(after)


def test_longest_word_is_an_option(corpus, hybrid, capsys, monkeypatch):
    endless = eager_of(hybrid[1])
    endless.parameters["target_characters.output.b"][END] -= 50.0
    monkeypatch.setattr(System, "open", lambda *_: endless)
    rows = evaluated(capsys, corpus, "--model", corpus / "whole", "--longest-word", 1)
    assert rows["spelled words cut"] == rows["spelled words"] != ["0"]
    message = complaint(capsys, "evaluate", corpus / "dev.en", corpus / "dev.de", "--model",
                        corpus / "whole", "--longest-word", 0)
    assert "--longest-word" in message


def test_the_perplexity_of_characters_may_decide_what_is_best(corpus):
    recipe = recipe_of(corpus, "--train.criterion=character_perplexity")
    train(recipe, corpus / "run", Observer())
    lines = map(json.loads, (corpus / "run/log.jsonl").read_text().splitlines())
    scores, improved = zip(*[(line["scores"]["character_perplexity"], line["improved"])
                             for line in lines if line["event"] == "epoch"], strict=True)
    assert improved == (True, scores[1] < scores[0])
    known = replace(recipe, data=replace(recipe.data, max_vocabulary=None))
    with pytest.raises(UserError, match="criterion: expected a dev set with words outside"):
        train(known, corpus / "none", Observer())
    assert not (corpus / "none").exists()


def test_the_explorer_shows_its_search_for_words(hybrid):
    """The steps end in `<unk>`, the text has the spelled words."""
    system = eager_of(hybrid[1])
    shown = searched(system, ["one", "zanzibar"], SearchOptions(beam=2, nbest=2), 0)["found"]
    assert any(UNK in row["words"] for row in shown)
    assert not any(UNK in row["text"] for row in shown)


def test_an_ensemble_spells_and_wants_the_same_characters(corpus, hybrid):
    recipe, system = hybrid
    second = train(replace(recipe, train=replace(recipe.train, seed=2)), corpus / "2", Observer())
    both = System.together(["a", "b"], [system, second], "probabilities")
    assert UNK not in words_of(both, SearchOptions(beam=2))
    alone = System.together(["a", "a"], [system, system], "probabilities")
    assert words_of(alone, SearchOptions(beam=2)) == words_of(system, SearchOptions(beam=2))
    few = System.create(recipe, system.vocabularies | {
        "target_characters": type(system.target)(system.vocabularies["target_characters"].words[3:])
    })
    with pytest.raises(UserError, match="b: expected the characters of a in one ensemble"):
        System.together(["a", "b"], [system, few], "probabilities")


def test_an_ensemble_is_evaluated_beside_its_members_and_translates(
    corpus, hybrid, capsys, monkeypatch
):
    shutil.copytree(corpus / "whole", corpus / "again")
    models = ("--model", corpus / "whole", corpus / "again")
    rows = evaluated(capsys, corpus, *models, "--ensemble")
    for name in ("BLEU", "chrF3", "spelled words", "unknown words", "perplexity"):
        assert len(rows[name]) == 3 and len({*rows[name]}) == 1, name
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"one zanzibar\n\nsix\n")))
    written = captured(capsys, "translate", *models, "--longest-word", 4)
    assert written.out.count("\n") == 3 and UNK not in written.out


def test_cut_words_are_counted_and_a_missing_vocabulary_is_named(corpus, hybrid, capsys):
    _, system = hybrid
    bias = system.parameters["target_characters.output.b"]
    bias[END] -= 50.0                                      # no word ends
    nbests = system.translate(SENTENCES, SearchOptions(longest_word=3))
    translations = [nbest[0] for nbest in nbests]
    spelled = [translation.words[place] for translation in translations
               for place in translation.spelled]
    assert spelled and {len(word) for word in spelled} == {3}
    assert [cut.cut_words for cut in translations] == [len(cut.spelled) for cut in translations]
    assert "character perplexity" in printed(capsys, "perplexity", corpus / "dev.en",
                                             corpus / "dev.de", "--model", corpus / "whole")
    (corpus / "whole" / "target_characters.vocab").unlink()
    message = complaint(capsys, "perplexity", corpus / "dev.en", corpus / "dev.de", "--model",
                        corpus / "whole")
    assert "found no target_characters.vocab in it" in message
