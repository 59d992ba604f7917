"""Keys of a recipe that have no effect because of another value, such as the number of pairs to
generate for a corpus that is read from files.

Such a key is an error if it is given in the same file as the value that decides, or in a recipe
based on that file. If a base gives it and the recipe on top decides otherwise, it is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from backend.errors import UserError
from lstm.cells import CELLS
from nmt.data.monolingual import PAIRINGS
from nmt.models.contract import character_tables
from nmt.models.rnnsearch_config import NO_LAYER
from nmt.recipe import GENERATED, AnyRecipe, LanguageModelRecipe, Recipe

Where = Callable[[str], str]  # dotted key -> file and line, "override", or the file alone


class Rule(NamedTuple):
    """When keys are used."""

    keys: tuple[str, ...]
    by: tuple[str, ...]  # the keys that decide it
    used: Callable[[Any], bool]  # recipe -> whether `keys` are used


def _data(names: str, by: str, used: Callable[[Any], bool]) -> Rule:
    """A rule on keys of a translator's `data`; names and by are separated by spaces."""
    keys, deciding = (tuple(f"data.{name}" for name in text.split()) for text in (names, by))
    return Rule(keys, deciding, lambda recipe: not isinstance(recipe, Recipe) or used(recipe.data))


def _section(section: str, names: str, by: str, used: Callable[[Any], bool]) -> Rule:
    """A rule on keys of another section; names and by are separated by spaces."""
    keys, deciding = (tuple(f"{section}.{name}" for name in text.split()) for text in (names, by))
    return Rule(keys, deciding, lambda recipe: used(getattr(recipe, section)))


def _with_characters(side: str) -> Callable[[Any], bool]:
    """The decision whether a model has the characters of a side; "": of any side."""
    return lambda recipe: any(side in name for name in character_tables(recipe.model))


RULES = (
    _data("train_source dev_source test_source tokenise max_length cut_long", "corpus",
          lambda data: data.corpus not in GENERATED),
    _data("train_target dev_target test_target cache", "corpus", lambda data:
          data.corpus == "files"),
    _data("test_size", "corpus", lambda data: data.corpus in GENERATED),
    _data("dev_size seed", "corpus dev_source", lambda data:
          data.corpus in GENERATED or (data.corpus == "files" and not data.dev_source)),
    _data("transliterate", "corpus", lambda data: data.corpus != "reverse"),
    _data("target_language", "corpus", lambda data: data.corpus not in PAIRINGS),
    _data("second_source_language", "train_second_source", lambda data:
          bool(data.train_second_source)),
    _data("subwords.joint", "subwords.merges subwords.size", lambda data: data.subwords.learned),
    _data("subwords.kind", "subwords.merges subwords.source_codes", lambda data:
          data.subwords.used),
    _data("min_frequency max_vocabulary", "source_vocabulary target_vocabulary", lambda data:
          not (data.source_vocabulary and data.target_vocabulary)),
    Rule(("data.max_characters",), ("model.architecture",), _with_characters("")),
    Rule(("search.longest_word",), ("model.architecture", "model.target_characters"),
         _with_characters("target")),
    _section("train", "beta1 beta2", "optimizer", lambda train: train.optimizer_takes("beta1")),
    _section("train", "epsilon", "optimizer", lambda train: train.optimizer_takes("epsilon")),
    _section("train", "halve_after halve_every", "schedule", lambda train:
             train.schedule == "thesis"),
    _section("train", "plateau_factor plateau_patience plateau_minimum", "schedule",
             lambda train: train.schedule == "plateau"),
    Rule(("train.batch_size", "train.sorted_within", "train.shuffle"), ("model.architecture",),
         lambda recipe: not isinstance(recipe, LanguageModelRecipe)),
    _section("text", "dev_share", "dev", lambda text: not text.dev),
    _section("model", "window", "attention", lambda model: model.attention.startswith("local")),
    _section("model", "score", "attention", lambda model: model.attention != "none"),
    _section("model", "location_length", "attention score", lambda model:
             model.attention != "none" and model.score == "location"),
    _section("model", "scale", "initialisation", lambda model:
             model.initialisation in ("uniform", "xavier")),
    _section("model", "forget_bias", "unit biases", lambda model:
             "f" in CELLS[model.unit].gates and model.biases),
    _section("model", "residual", "layers", lambda model: model.layers > 1),
    _section("model", "layer_size", "layer", lambda model: model.layer != NO_LAYER),
    _section("model", "query", "context", lambda model: model.context == "search"),
    _section("model", "path alpha", "target_characters", lambda model: model.target_characters),
)


def check_used(
    recipe: AnyRecipe, keys: Collection[str], values: Mapping[str, Any],
    defaults: Mapping[str, Any], where: Where, path: str,
) -> Collection[str]:
    """Those of the keys that a recipe does not use.

    values: dotted key -> value, for all keys that were values. defaults: of all keys. path: the
    recipe's file. Raises UserError for an unused key that is given in the same file as the value
    that decides, or above it.
    """
    unused = dict(unused_keys(recipe, keys))
    for key, deciders_of_key in unused.items():
        deciders = [decider for decider in deciders_of_key if decider in values]
        if values[key] != defaults[key] and _above(key, deciders, where, path):
            decision = " and ".join(f"{decider} is {values.get(decider, defaults[decider])!r}"
                                    for decider in deciders_of_key if decider in defaults)
            raise UserError(f"{where(key)}: {key}: expected none where {decision}, which does not "
                            f"use it, got {values[key]!r}".replace("None", "null"))
    return unused


def unused_keys(recipe: AnyRecipe, keys: Collection[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Those of the keys that a recipe does not use, each with the keys that decide so."""
    for rule in RULES:
        unused = [key for key in rule.keys if key in keys]
        if unused and not rule.used(recipe):
            yield from ((key, rule.by) for key in unused)


def _above(key: str, by: list[str], where: Where, path: str) -> bool:
    """Whether a key was given in the same file as one of the keys `by`, or above all of them.
    Overrides are above the recipe, and the recipe is above its bases."""
    def file(key: str) -> str:
        return where(key).rpartition(":")[0] or "override"

    def height(key: str) -> int:
        return 2 if file(key) == "override" else int(file(key) == path)

    return height(key) > max(map(height, by), default=-1) or file(key) in map(file, by)
