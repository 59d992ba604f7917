"""The recipes of the golden runs: one of each architecture, and of each option that changes which
parameters a model has or what a run directory holds.

A recipe says what differs from the base of its kind. Models are tiny and their weights start large,
so that four updates are enough for translations that depend on every parameter.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

from attention.scores import CONTENT
from nmt.models.translator import CHOICES
from nmt.recipe.tasks import KEYS

DATA = {"directory": "corpus", "train_source": "train.en", "train_target": "train.de",
        "dev_source": "dev.en", "dev_target": "dev.de", "target_language": "de",
        "tokenise": "none", "max_vocabulary": 14}
SIZES = {"hidden_size": 4, "embedding_size": 3}
START = {"initialisation": "uniform", "scale": 2.0}
BASE = {"data": DATA, "model": {**START, **SIZES, "layers": 1},
        "train": {"epochs": 1, "batch_size": 4, "log_every": 4, "learning_rate": 0.02},
        "search": {"beam": 3}, "evaluate": {"bleu": False, "bleu_tokenize": "none"}}
TEXT = {"text": {"train": "corpus/train.de", "dev": "corpus/dev.de", "streams": 4, "length": 5},
        "model": {"architecture": "language_model", **START, **SIZES, "layers": 1},
        "train": {"epochs": 1, "log_every": 4, "learning_rate": 0.02}}


class Case(NamedTuple):
    """A golden run: the recipe, and the command that begins it."""

    recipe: dict[str, Any]  # {}: the recipe of the run that the command names
    command: str = "train"  # the verb of `nmt` with its arguments; the recipe and --output follow
    stop: int = 4  # the update after which the run stops


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A recipe with changes, section by section; a value of None takes a key away."""
    recipe = dict(base)
    for key, value in changes.items():
        inner = isinstance(value, dict) and isinstance(recipe.get(key), dict)
        recipe[key] = merged(recipe[key], value) if inner else value
    return {key: value for key, value in recipe.items() if value is not None}


def luong(sections: dict[str, Any] | None = None, **model: Any) -> Case:
    """A run of Luong's translator, or of an architecture with its options: those of the model, and
    other sections."""
    return Case(merged(merged(BASE, {"model": model}), sections or {}))


def rnnsearch(sections: dict[str, Any] | None = None, **model: Any) -> Case:
    """The same of RNNsearch, which has one layer and another size."""
    return luong(sections, layers=None, scale=1.0, **{
        "architecture": "rnnsearch", "layer_size": 5, **model})


def transformer(sections: dict[str, Any] | None = None, **model: Any) -> Case:
    """The same of a Transformer, which has other sizes."""
    changes = merged({"data": {"max_translate_length": 50}}, sections or {})
    return luong(changes, layers=None, embedding_size=None, **{
        "architecture": "transformer", "encoder_layers": 1, "decoder_layers": 1, "inner_size": 5,
        "heads": 2, "positions": 50, "dropout": 0.1, **model})


def language(text: dict[str, Any] | None = None, parametrize: dict[str, Any] | None = None,
             **model: Any) -> Case:
    """A language model."""
    changes = {"text": text or {}, "model": model, "parametrize": parametrize or {}}
    return Case(merged(TEXT, changes), "lm train")


def later(case: Case) -> Case:
    """The case with Adam, stopped in its second epoch, when there is a best checkpoint."""
    return case._replace(recipe=merged(case.recipe, {"train": {"epochs": 2, **ADAM}}), stop=12)


def tasks(base: Case | None = None, **given: Any) -> Case:
    """Translators together: of each task what differs from the base, and keys of the mixture."""
    recipe = (base or luong()).recipe
    recipes = {name: merged(recipe, given.pop(name)) for name in list(given) if name not in KEYS}
    return Case({"tasks": recipes, **given})


def attention_variants() -> dict[str, Case]:
    """Every score in every window that it goes with."""
    cases = {}
    for score, window in product((*CHOICES, "concat-identity"), ("global", "local-m", "local-p")):
        if window == "global" or score in CONTENT or score == "concat-identity":
            identity = {"concat_identity": True} if score == "concat-identity" else {}
            cases[f"luong-{score}-{window}"] = luong(
                score=score.removesuffix("-identity"), attention=window, window=1,
                location_length=4, **identity)
    return cases


BOTH_ENDS = {"bidirectional": True, "bridge": True}
NO_ATTENTION = {"attention": "none", "input_feeding": False}
ADAM = {"optimizer": "adam", "learning_rate": 0.02}
TIED = {"model": {"embedding_size": 4}, "parametrize": {"tied": {"decoder.W_e": "output.W_hy"}}}
SHARED = {"model": {"embedding_size": 4}, "data": {"shared_vocabulary": True, "max_vocabulary": 24},
          "parametrize": {"tied": {"decoder.W_e": "encoder.W_e", "output.W_hy": "encoder.W_e"}}}
NORMALIZED = {"parametrize": {"normalized": {"output.W_hy": 2.0}}}
ALONE = {"model": {"embedding_size": None}}  # a Transformer has one size
BACKWARDS = {"data": {"reverse_source": True}}
TAGGED = {"data": {"train_source": "train.tagged.en", "dev_source": "dev.tagged.en"}}
PIECES = {"data": {"max_vocabulary": None, "subwords": {"merges": 20}}}
RARE = {"data": {"max_vocabulary": 10}}
SECOND = {"data": {"train_second_source": "train.fr", "dev_second_source": "dev.fr"}}
HYBRID = {"architecture": "hybrid", "character_embedding_size": 3}
FUSED = {"architecture": "deep_fusion", "lm_hidden_size": 3, "lm_embedding_size": 2}
TWO = {"architecture": "two_sources"}
TO_FRENCH = {"data": {"train_target": "train.fr", "dev_target": "dev.fr", "target_language": "fr"}}
GERMAN_ONLY = {"data": {"corpus": "copy", "train_source": "train.de", "train_target": None,
                        "dev_source": "dev.de", "dev_target": None}}

CASES: dict[str, Case] = {
    # --- Luong's translator: parts
    "luong": later(luong(layers=2, dropout=0.2)),
    "luong-rnn": luong(unit="rnn"),
    "luong-gru": luong(unit="gru", layers=2, biases=False),
    "luong-both-ends": luong(layers=2, **BOTH_ENDS),
    "luong-both-ends-gru": luong(BACKWARDS, unit="gru", input_feeding=False, **BOTH_ENDS),
    "luong-bridge": luong(bridge=True, output_bias=True),
    "luong-no-attention": luong(layers=2, **NO_ATTENTION),
    "luong-no-attention-feeding": luong(unit="gru", attention="none"),
    "luong-no-feeding": luong(input_feeding=False, biases=False),
    "luong-author": luong(dropout=0.3, dropout_sites="author", clip_elements=0.5),
    **attention_variants(),
    "luong-local-p-renormalised": luong(BACKWARDS, attention="local-p", window=1, layers=2,
                                        renormalise=True),
    # --- its output
    "luong-normalised-logits": luong(merged(TIED, NORMALIZED), output_norm=2.0),
    "luong-learned-radius": luong(
        merged(NORMALIZED, {"parametrize": {"learned_radius": True}})),
    "luong-lexical": luong(lexical=True, output_norm=2.0, output_bias=True),
    "luong-lexical-normalised": luong(
        {"parametrize": {"normalized": {"output.W_l": 3.0}}}, lexical=True, attention="local-m"),
    "luong-lexicon": luong({"data": {"lexicon": "lexicon"}}, lexicon_epsilon=0.01),
    "luong-sampled": luong(target_sample=4, output_bias=True),
    "luong-sampled-equal": luong(target_sample=4, sample_weights="equal"),
    # --- its data
    "luong-tied": luong(TIED),
    "luong-shared": luong(SHARED),
    "luong-frozen": luong({"parametrize": {"frozen": ["encoder.*", "*.W_e"]}}),
    "luong-case-place": luong(PIECES, factors={"case": 1, "place": 1}),
    "luong-tags": luong(TAGGED, factors={"kind": 2}),
    "luong-pieces": luong({"data": {"max_vocabulary": None, "word_dropout": 0.1, "subwords": {
        "merges": 12, "joint": False, "dropout": 0.2}}}),
    "luong-letters": luong({"data": {"tokenise": "letters", "max_vocabulary": None}}),
    "luong-end-token": luong({"data": {"source_end": True, "target_token": "<2de>",
                                       "reverse_target": True}}),
    "luong-reverse-task": luong({"data": {
        "corpus": "reverse", "train_size": 32, "dev_size": 4, "test_size": 0}}),
    "luong-dummy": luong({"data": GERMAN_ONLY["data"] | {"corpus": "dummy"}}),
    # --- its training
    "luong-adadelta": luong({"train": {"optimizer": "adadelta", "learning_rate": 1.0, "keep": 1,
                                       "epochs": 2}})._replace(stop=12),
    "luong-plateau": luong({"train": {"schedule": "plateau", "plateau_patience": 1, **ADAM,
                                      "evaluate_every": 2, "warmup": 2}}),
    "luong-accumulated": luong({"train": {"batch_tokens": 12, "accumulate": 2}})._replace(stop=2),
    "luong-pruned": Case({}, "prune runs/luong --percent 40 --retrain --train.epochs=1", 4),
    "luong-sparse": Case({}, "prune runs/luong-tied --percent 60 --sparse", 0),
    "luong-begun": Case(merged(luong(layers=2).recipe, TO_FRENCH),
                        "train --freeze encoder.* --init runs/luong"),
    # --- RNNsearch
    "rnnsearch": later(rnnsearch()),
    "rnnsearch-simplified": rnnsearch(unit="rnn", layer="tanh", output_bias=False),
    "rnnsearch-last": rnnsearch(context="last", biases=False),
    "rnnsearch-state-word": rnnsearch(query="state-word", deep_state="now", target_sample=3),
    # --- Transformer
    "transformer": later(transformer()),
    "transformer-post": transformer(pre_norm=False, norm="scale", output_bias=False,
                                    encoder_layers=2, decoder_layers=2, label_smoothing=0.1),
    "transformer-shared": transformer(merged(SHARED, ALONE), norm="fixed-scale"),
    "transformer-normalised": transformer(
        merged(merged(TIED, NORMALIZED), ALONE), norm="rms"),
    "transformer-countdown": transformer(target_positions="countdown"),
    # --- hybrid
    "hybrid": later(luong(RARE, **HYBRID)),
    "hybrid-same": luong(RARE, path="same", character_layers=2, alpha=0.5, character_dropout=0.2,
                         **HYBRID),
    "hybrid-source": luong(RARE, target_characters=False, unit="gru", **BOTH_ENDS, **HYBRID),
    "hybrid-target": luong(merged(RARE, BACKWARDS), source_characters=False, output_bias=True,
                           score="concat", input_feeding=False, **HYBRID),
    "hybrid-no-attention": luong(RARE, path="same", unit="rnn", biases=False, **NO_ATTENTION,
                                 **HYBRID),
    # --- language models
    "language": later(language(layers=2, dropout=0.2)),
    "language-lstm": language(),
    "language-gru": language({"level": "characters"}, unit="gru", output_bias=False),
    "language-rnn": language(parametrize={"tied": {"W_e": "output.W_hy"}}, unit="rnn",
                             biases=False, embedding_size=4),
    "language-pruned": Case({}, "prune runs/language --percent 40 --from-scratch"),
    # --- deep fusion
    "deep-fusion": later(rnnsearch({"parametrize": {"frozen": ["encoder.*", "lm.*"]}}, **FUSED)),
    "deep-fusion-last": rnnsearch(context="last", lm_unit="gru", lm_layers=2, lm_biases=False,
                                  **FUSED),
    "deep-fusion-state-word": rnnsearch(query="state-word", unit="rnn", layer="tanh",
                                        lm_unit="rnn", deep_state="now", **FUSED),
    # --- two sources
    "two-sources": later(luong(SECOND, **TWO)),
    "two-sources-both-ends": luong(SECOND, attention="local-m", score="additive", output_bias=True,
                                   bidirectional=True, **TWO),
    "two-sources-no-attention": luong(SECOND, unit="gru", layers=2, **NO_ATTENTION, **TWO),
    # --- several tasks
    "tasks": tasks(de={}, fr=TO_FRENCH, share=["encoder"]),
    "tasks-copy": tasks(
        de={"train": {"epochs": 2}}, copy=GERMAN_ONLY, ratios={"copy": 0.5}, share=["decoder"],
        vocabularies="first")._replace(stop=18),
    "tasks-halves": tasks(
        luong(**NO_ATTENTION), de={}, halves=merged(GERMAN_ONLY, {"data": {"corpus": "halves"}}),
        share=[]),
    "tasks-private": tasks(
        de={"data": {"target_token": "<2de>"}},
        fr=merged(TO_FRENCH, {"data": {"target_token": "<2fr>"}}),
        share=["encoder", "decoder"], private=0.5),
    "tasks-hybrid": tasks(luong(RARE, **HYBRID), de={}, fr=TO_FRENCH, share=["encoder"]),
    "tasks-transformer": tasks(transformer(), de={}, fr=TO_FRENCH, share=["encoder"]),
    "tasks-rnnsearch": tasks(rnnsearch(), de={}, fr=TO_FRENCH, share=["encoder"]),
}
