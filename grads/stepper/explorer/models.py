"""Opens a trained model and runs a derivation with its weights on a user's sentence.

If the model is the algorithm of a paper, the derivation of that algorithm is run. Otherwise
`grads.derivations.translator` or `.language_model` is run with the model's parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backend import to_host
from backend.errors import UserError
from grads.derivations.declaration import Declaration
from grads.derivations.examples import END, UNKNOWN, Example
from grads.derivations.language_model import language_backward, language_forward
from grads.derivations.transformer_model import Shape
from grads.derivations.translator import translator_backward, translator_forward
from grads.derivations.units import gates
from grads.stepper.explorer import parts
from grads.stepper.tracing.derivations import Derivation, declared, find
from nmt.data.corpora import tokenisers
from nmt.language_models import LanguageSystem, tokens_of
from nmt.models.hybrid_config import HybridConfig
from nmt.models.registry import name_of
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.transformer import TransformerConfig
from nmt.models.translator_config import ModelConfig
from nmt.pages.search import said_unknown
from nmt.search.interface import SearchOptions
from nmt.system import System

# Derivations of models that no paper has as a whole
TRANSLATOR, LANGUAGE_MODEL = "translator", "language-model"
PHRASE = "good morning"  # the sentence if the user gives none
ARCHITECTURES = ("luong", "rnnsearch", "deep_fusion", "hybrid", "transformer")  # of translators
# A one-layer language model's parameters by the derivation's names
LANGUAGE_NAMES = {"W_e": "W_e", "rnn.0.W": "T", "rnn.0.b": "b", "output.W_hy": "W_hy",
                  "output.b": "b_hy"}


@dataclass(frozen=True)
class Trained:
    """A trained model of a run directory, with a sentence."""

    derivation: Derivation
    hidden: int
    embedding: int
    parameters: int  # how many numbers
    unknown: list[str]  # words that its vocabularies do not have
    notes: tuple[str, ...]
    reverse: bool = False  # whether the encoder reads the sentence from its end


def open_model(
    directory: Path, sentence: str | None, target: str | None, which: str
) -> Trained:
    """Open a model of a run directory.

    Argument which: the checkpoint, best or last. Raises `UserError` for a directory without a run,
    for an architecture that is not covered, and for a sentence without words.
    """
    if sentence is not None and not sentence.strip():
        raise UserError(f"sentence: expected at least one word, got {sentence!r}")
    if LanguageSystem.is_in(directory):
        if target is not None:
            raise UserError(f"target: {directory} is a language model, which has none")
        return language(LanguageSystem.open(directory, which), sentence or PHRASE)
    return translation(System.open(directory, which), directory, sentence or PHRASE, target)


def language(system: LanguageSystem, sentence: str) -> Trained:
    """Open a language model. It reads the end marker first, as in training."""
    config = system.recipe.model
    if config.residual:
        raise UserError("model.residual: expected false for a page, got true")
    words = tokens_of([sentence], system.recipe.text.level)
    ids = system.vocabulary.ids(words)
    ids = [END if word == "</s>" else i for word, i in zip(words, ids, strict=True)]
    parameters = exact(system.parameters)
    example = Example((parameters, [END, *ids[:-1]], ids), {"unit": config.unit},
                      {"W_e": list(system.vocabulary.words)})
    title = f"Language model: {parts.stacked(config)}"
    derivation = declared(Declaration(LANGUAGE_MODEL, title, language_forward, language_backward,
                                      lambda request: example, attentive=False))
    if config.layers == 1 and config.unit in ("rnn", "lstm"):
        names = {theirs: ours for theirs, ours in LANGUAGE_NAMES.items() if theirs in parameters}
        renamed = {ours: parameters[theirs] for theirs, ours in names.items()}
        literal = replace(example, arguments=(renamed, *example.arguments[1:]), named={})
        derivation = on(find(config.unit), literal)
    return trained(derivation, config, count(parameters), [
        said_unknown("sentence", unknown(words, ids))], words, ids)


def translation(
    system: System, directory: Path, sentence: str, target: str | None
) -> Trained:
    """Open a translator. Without a target, the model's greedy translation is used."""
    config, data = system.recipe.model, system.recipe.data
    if name_of(config) not in ARCHITECTURES:
        raise UserError(f"{directory}: expected a model of the architecture "
                        f"{', '.join(ARCHITECTURES)} or language_model, got {name_of(config)}")
    for name in ("lexicon_epsilon", "output_norm", "residual"):
        if getattr(config, name, None):
            raise UserError(f"{directory}: expected a model without model.{name}, got "
                            f"{getattr(config, name)}")
    source_cut, target_cut = (tokeniser.tokenise for tokeniser in tokenisers(data))
    x, has_no_target = source_cut(sentence), target is None
    spelled: tuple[int, ...] = ()
    if target is None:
        best = system.translate([x], SearchOptions())[0][0]
        y, spelled = list(best.words), best.spelled
    else:
        y = list(system.target.pieces(target_cut(target)))
    if data.reverse_target:
        y = y[::-1]
    if not x or not (y or has_no_target):
        raise UserError(f"{'target' if x else 'sentence'}: expected at least one word")
    if not y and getattr(config, "counts_down", False):
        raise UserError("target: expected at least one word, since the model's own translation has "
                        "none and with model.target_positions countdown there is no </s>")
    x_ids, y_ids = system.source_ids(x), system.target.ids(y)  # y is in pieces
    y_ids = [UNKNOWN if t in spelled else i for t, i in enumerate(y_ids)]
    columns, tables = system.source_columns(x), factors_of(system, x)
    read = list(zip(x_ids, *tables.values(), strict=True)) if tables else x_ids
    parameters = exact(system.parameters)
    example = Example((parameters, read[::-1] if data.reverse_source else read, y_ids), {}, {
        "encoder.W_e": list(system.source.words),
        **{f"encoder.W_{name}": list(system.readers[0].factors.values(name)) for name in tables},
        "decoder.W_e": list(system.target.words)})
    if isinstance(config, HybridConfig):
        derivation = of_hybrid(system, directory, example, columns, y)
    elif isinstance(config, TransformerConfig):
        derivation = of_transformer(config, example, directory)
    elif getattr(config, "lexical", False):
        derivation = of_lexical(config, example, data.reverse_source, directory)
    else:
        derivation = of_translator(config, example, data.reverse_source)
    by_characters = {side: side in system.spellings for side in ("source", "target")}
    made = trained(derivation, config, count(parameters), [
        said_unknown("sentence", unknown(columns, x_ids), by_characters["source"]),
        said_unknown("target", unknown(y, y_ids), by_characters["target"]),
        "The target is the model's own greedy translation." if has_no_target else "",
        "The characters' loss counts in full here, in training "
        f"{config.alpha:g} times (5.5)." if getattr(config, "alpha", 1.0) != 1.0 else "",
        "Frozen in training, with gradients here: "
        f"{', '.join(system.recipe.parametrize.frozen)}."
        if system.recipe.parametrize.frozen else "",
        "The encoder reads the sentence from its end." if data.reverse_source else "",
        "The decoder writes the sentence from its end." if data.reverse_target else "",
        *said_factors(system, columns, tables)],
        [*columns, *y], [*x_ids, *y_ids])
    return replace(made, reverse=data.reverse_source)


def factors_of(system: System, x: Sequence[str]) -> dict[str, list[int]]:
    """The ids of each factor for the words of a sentence, by the factor's name."""
    reader = system.readers[0]
    return dict(zip(reader.factors.names, reader.rows(x, reader.pieces(x)), strict=True))


def said_factors(
    system: System, columns: Sequence[str], tables: Mapping[str, Sequence[int]]
) -> list[str]:
    """A line for each factor, with its value for each source word."""
    values = {name: system.readers[0].factors.values(name) for name in tables}
    return [f"Factor {name}: " + ", ".join(
        f"{word} {values[name][i]}" for word, i in zip(columns, ids, strict=True)) + "."
        for name, ids in tables.items()]


def of_hybrid(
    system: System, directory: Path, example: Example, x: Sequence[str], y: Sequence[str]
) -> Derivation:
    """The derivation of chapter 5 for a model of words and characters.

    Arguments: example, of the words, in which unknown words are 0; x and y, the words as they are
    written. alpha of (5.5) is 1: the gradients inside a spelling are those of its own loss. Raises
    `UserError` for a backbone that the derivation does not cover.
    """
    config: Any = system.recipe.model
    if config.unit != "lstm" or config.bidirectional or config.bridge or config.attention == "none":
        raise UserError(f"{directory}: expected a hybrid model of lstm with attention, without "
                        f"bidirectional and bridge, got {parts.described(config)}")
    parameters, read, y_ids = example.arguments
    source, target = (system.spellings.get(side) for side in ("source", "target"))
    words = dict.fromkeys(word for word, i in zip(x, system.source_ids(x), strict=False)
                          if i == UNKNOWN and source is not None)
    numbers = {word: len(parameters["encoder.W_e"]) + r for r, word in enumerate(words)}
    ordered = x[::-1] if system.recipe.data.reverse_source else x
    read = [numbers.get(word, i) for word, i in zip(ordered, read, strict=True)]
    rare = [] if source is None else [list(source.spelled(word)) for word in words]
    spellings = {} if target is None else {
        t: list(target.spelled(word)) for t, (word, i) in enumerate(
            zip(y, y_ids, strict=True), start=1) if i == UNKNOWN}
    named = {"variant": parts.variant_of(config, system.recipe.data.reverse_source)}
    vocabularies = {**example.words, "encoder.W_e": [*example.words["encoder.W_e"], *words]}
    return on(find("hybrid" if config.seed_matrix else "hybrid-same"), replace(
        example, arguments=(parameters, read, y_ids, rare, spellings), named=named,
        words=vocabularies))


def of_translator(
    config: ModelConfig | RNNSearchConfig, example: Example, reverse: bool
) -> Derivation:
    """The derivation of a translator, or one that combines the model's parts."""
    if isinstance(config, RNNSearchConfig):
        literal = (config.unit, config.context, config.layer) == ("gru", "search", "maxout")
        if literal and config.language is None:
            parameters, *ids = example.arguments
            return on(find("rnnsearch"), replace(
                example, arguments=(as_printed(parameters, config), *ids),
                named={"deep_state": config.deep_state, "query": config.query}))
        return translator(parts.described(config), replace(
            example, named={"model": parts.search(config)}))
    if config.unit == "lstm" and not (config.bidirectional or config.bridge or config.factors):
        if config.attention != "none":
            return on(find("attention"), replace(
                example, named={"variant": parts.variant_of(config, reverse)}))
        if not config.input_feeding:
            return on(find("nmt"), example)
    return translator(parts.described(config), replace(
        example, named={"model": parts.translator(config, reverse)}))


def translator(title: str, example: Example) -> Derivation:
    """A translator made of the example's parts."""
    return declared(Declaration(TRANSLATOR, title, translator_forward, translator_backward,
                                lambda request: example, attentive=False))


def of_lexical(
    config: ModelConfig, example: Example, reverse: bool, directory: Path
) -> Derivation:
    """The derivation of the lexical module. Raises `UserError` for a translator that it does not
    cover."""
    others = [name for name in ("bidirectional", "bridge", "factors") if getattr(config, name)]
    if config.unit != "lstm" or others:
        raise UserError(f"{directory}: expected a model with model.lexical of lstm, without "
                        f"bidirectional, bridge and factors, got {parts.described(config)}")
    return on(find("lexical"), replace(
        example, named={"variant": parts.variant_of(config, reverse)}))


def of_transformer(config: TransformerConfig, example: Example, directory: Path) -> Derivation:
    """The derivation of a Transformer. Raises `UserError` for a model with parts that no derivation
    has."""
    down = config.counts_down
    covered = ("encoder.", "decoder.", "output.", *(("length.",) if down else ()))
    others = [name for name in example.arguments[0] if not name.startswith(covered)]
    if others:
        raise UserError(f"{directory}: expected a Transformer of encoder, decoder and output, got "
                        f"{', '.join(others)} too")
    placed = "pre" if config.pre_norm else "post"
    usual = "transformer" if config.pre_norm else "transformer-postnorm"
    derivation = on(find("countdown" if down else usual), replace(
        example, named={"shape": Shape(config.heads, config.norm, placed, down)}))
    return replace(derivation, title=parts.described_transformer(config))


def on(derivation: Derivation, example: Example) -> Derivation:
    """A derivation that runs on the given example."""
    return replace(derivation, example=lambda request: example)


def as_printed(parameters: Mapping[str, np.ndarray], config: RNNSearchConfig
               ) -> dict[str, np.ndarray]:
    """RNNsearch's parameters under the names of its derivation, with a separate matrix for each
    gate."""
    E = config.embedding_size
    rounded: dict[str, np.ndarray] = {}
    for name, value in parameters.items():
        prefix, _, last = name.rpartition(".")
        if last == "W" and prefix.startswith(("encoder.", "decoder.")):
            unit = gates(value, 0.0, value.shape[1] - len(value) // 3)
            for gate in ("", "_z", "_r"):
                W, C = np.split(getattr(unit, f"W{gate}"), [E], axis=1)
                rounded |= {f"{prefix}.W{gate}": W, f"{prefix}.U{gate}": getattr(unit, f"U{gate}")}
                rounded |= {f"{prefix}.C{gate}": C} if C.size else {}
        elif last == "b" and prefix.startswith(("encoder.", "decoder.")):
            b_r, b_z, b = np.split(value, 3)
            rounded |= {f"{prefix}.b": b, f"{prefix}.b_z": b_z, f"{prefix}.b_r": b_r}
        else:
            rounded[name] = value
    return rounded


def exact(parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The parameters in float64. Derivatives are compared to more digits than float32 has."""
    return {name: np.asarray(to_host(array), np.float64) for name, array in parameters.items()}


def count(parameters: Mapping[str, np.ndarray]) -> int:
    """The number of entries of all parameters."""
    return sum(array.size for array in parameters.values())


def trained(
    derivation: Derivation, config: Any, size: int, notes_of_model: Sequence[str],
    words: Sequence[str], ids: Sequence[int],
) -> Trained:
    """The opened model with its notes."""
    notes = ("Trained weights; computed in float64.",
             "Without the dropout of training." if getattr(config, "dropout", 0.0) else "",
             "Without the clipping of dh in training."
             if getattr(config, "clip_elements", None) is not None else "",
             "Without the label smoothing of training."
             if getattr(config, "label_smoothing", 0.0) else "",
             *notes_of_model)
    E = getattr(config, "embedding_size", config.hidden_size)
    return Trained(derivation, config.hidden_size, E, size,
                   unknown(words, ids), tuple(note for note in notes if note))


def unknown(words: Sequence[str], ids: Sequence[int]) -> list[str]:
    """The words that the vocabulary does not contain, without repetition."""
    return list(dict.fromkeys(word for word, i in zip(words, ids, strict=True) if i == UNKNOWN))
