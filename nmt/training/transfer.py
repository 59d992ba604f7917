"""Transfer: a child starts from its parent's parameters (Zoph et al., 2016; Nguyen, section 3.1).

Parameters are taken by name. A table has a row for each word or piece of a vocabulary. A word that
the parent has too gets the parent's row, and other words stay fresh ("a word that appears in both
vocabularies keeps its embedding", 3.1.2). In Zoph et al. the source vocabularies do not overlap:
each of the child's source words gets the row of a random word of the parent's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from backend import Array, to_device, to_host
from backend.errors import UserError
from lstm.parameters import Weight
from nmt.base_system import BaseSystem
from nmt.data.joiner import JOINER
from nmt.data.vocabulary import SPECIALS, UNKNOWN, Vocabulary
from nmt.data.word_files import read_vectors
from nmt.models.contract import CHARACTERS
from nmt.models.registry import name_of
from nmt.training.tasks import PARTS, part_of

TABLE_OF = {"source": "encoder.W_e", "target": "decoder.W_e"}  # side -> its embeddings
MATCH, RANDOM, SAME = WORDS = ("match", "random", "same")
OF_VOCABULARY = ("word", "character")  # the axes of weights whose entries are a vocabulary's

S = TypeVar("S", bound=BaseSystem)


@dataclass(frozen=True)
class Parent:
    """The run that another run starts from.

    system: the parent. path: the path of its checkpoint. step: the number of updates before the
    checkpoint. words: how rows of tables are taken, one of WORDS; with "same" the child has the
    parent's vocabularies.
    """

    system: Any
    path: Path
    step: int | None = None
    words: str = MATCH

    def check(self, recipe: Any) -> None:
        """Raise UserError unless a recipe's model has the parent's architecture and can take its
        tables."""
        expected, actual = name_of(recipe.model), name_of(self.system.recipe.model)
        if expected != actual:
            raise UserError(f"{self.path}: expected a run of the architecture {expected} to begin "
                            f"with, got {actual}")
        if self.words == RANDOM and recipe.shared_vocabulary:
            raise UserError("--init-words random: expected tables of each side's own words, got "
                            "data.shared_vocabulary true")
        if self.words == SAME:
            self._check_same(recipe)

    def _check_same(self, recipe: Any) -> None:
        """Raise UserError unless the parent's vocabularies can be the recipe's."""
        parent_recipe, names = self.system.recipe, self.system.names_of(recipe)
        if set(names) != set(self.system.vocabularies):
            raise UserError(f"--init-words same: expected a parent with the vocabularies "
                            f"{', '.join(names)}, got {', '.join(self.system.vocabularies)}")
        for key, child_value, parent_value in (
                ("data.shared_vocabulary", recipe.shared_vocabulary,
                 parent_recipe.shared_vocabulary),
                ("data.subwords", recipe.data.subwords.used, parent_recipe.data.subwords.used)):
            if child_value != parent_value:
                raise UserError(f"--init-words same: expected {key} as in {self.path.parent}, "
                                f"which has {'some' if parent_value else 'none'}")


def start_from(child: S, parent: Parent) -> tuple[S, list[str]]:
    """Copy the parent's parameters into the child, in place; return the child, and lines on what
    was taken.

    Raises UserError for a parameter of another size.
    """
    parent_arrays = _known(child, parent.system)
    stored = child.stored or child.parameters
    weights = (child.parametrized or child.model).weights()
    taken = [name for name in stored if name in parent_arrays]
    for name in taken:
        _check_size(parent.path, name, weights[name], parent_arrays[name])
    rng = np.random.default_rng([child.recipe.train.seed, 3])
    tables: dict[str, dict[str, Any]] = {}
    for name in taken:
        rows = None
        if weights[name].axes[0].name in OF_VOCABULARY:
            rows, tables[name] = _rows(name, child, parent, rng)
        _take(stored[name], parent_arrays[name], rows)
    facts = {"parent": str(parent.path), "step": parent.step, "words": parent.words,
             "parameters": len(taken), "tables": tables,
             "fresh": [name for name in stored if name not in parent_arrays]}
    started = replace(child, parameters=child.plain(stored), origin=facts)
    return started, _lines(facts)


def embed(child: S, files: Mapping[str, Path]) -> tuple[S, list[str]]:
    """Copy word vectors of files (`nmt.data.word_files`) into the child's embedding tables, in
    place; return the child, and lines on how many words have a vector.

    files: side -> path. Raises UserError for a side whose embeddings are not stored as a table, and
    as `read_vectors`.
    """
    stored, tables = child.stored or child.parameters, dict[str, dict[str, Any]]()
    for side, path in files.items():
        name = TABLE_OF[side]
        if name not in stored:
            raise UserError(f"--init-embeddings {side}: expected an embedding table, got none "
                            f"({name} is computed from other parameters, or is not there)")
        words = child.vocabularies[side].words[len(SPECIALS):]
        plain = [word.strip(JOINER) or word for word in words]
        vectors = read_vectors(path, {*words, *plain}, stored[name].shape[1])
        rows = [(row, vectors.get(word, vectors.get(bare))) for row, (word, bare)
                in enumerate(zip(words, plain, strict=True), len(SPECIALS))]
        known_rows = [(row, vector) for row, vector in rows if vector is not None]
        if not known_rows:
            raise UserError(f"{path}: expected vectors of the {side}'s words, got none")
        _take(stored[name], np.stack([vector for _, vector in known_rows]),
              [(row, k) for k, (row, _) in enumerate(known_rows)])
        tables[name] = {"file": str(path), "words": len(words), "taken": len(known_rows)}
    origin = {**(child.origin or {}), "embeddings": tables}
    embedded = replace(child, parameters=child.plain(stored), origin=origin)
    return embedded, [f"init: {name}: {table['taken']} of {table['words']} words have a vector of "
                      f"{table['file']} ({100 * table['taken'] / table['words']:.1f} %)"
                      for name, table in tables.items()]


def _known(child: BaseSystem, parent: BaseSystem) -> Mapping[str, Array]:
    """The parent's parameters by name; the stored ones too, if both are parametrized alike."""
    options = [replace(system.recipe.parametrize, frozen=[]) for system in (child, parent)]
    return {**parent.parameters, **parent.stored} if options[0] == options[1] else parent.parameters


def _rows(
    name: str, child: BaseSystem, parent: Parent, rng: np.random.Generator
) -> tuple[list[tuple[int, int]], dict[str, Any]]:
    """(row, the parent's row) for the words of a table that take a row, and facts on the table."""
    words, parent_words = (_vocabulary(name, system) for system in (child, parent.system))
    drawn = parent.words == RANDOM and words is child.vocabularies[child.names[0]]
    rows = _drawn(words, parent_words, rng) if drawn else _matched(words, parent_words)
    return rows, {"words": len(words) - len(SPECIALS), "taken": len(rows) - len(SPECIALS),
                  "by": RANDOM if drawn else MATCH}


def _check_size(path: Path, name: str, weight: Weight, array: Array) -> None:
    """Raise UserError for another shape. A table may have another number of rows."""
    first = weight.axes[0].name in OF_VOCABULARY
    if weight.shape[first:] != array.shape[first:]:
        raise UserError(f"{path}: {name}: expected shape {weight.shape}, which the recipe's model "
                        f"has, got {array.shape}")


def _vocabulary(name: str, system: BaseSystem) -> Vocabulary:
    """The vocabulary of a table's rows."""
    prefix = name.split(".")[0]
    if prefix in CHARACTERS:
        return system.vocabularies[prefix]
    return system.vocabularies[system.names[0 if part_of(name) == PARTS[0] else -1]]


def _matched(words: Vocabulary, parent_words: Vocabulary) -> list[tuple[int, int]]:
    """(row, the parent's row) for the symbols and for all words that both vocabularies have."""
    rows = parent_words.ids(words.words[len(SPECIALS):])
    symbols = [(i, i) for i in range(len(SPECIALS))]
    return [*symbols, *((row, parent_row) for row, parent_row in enumerate(rows, len(SPECIALS))
                        if parent_row != UNKNOWN)]


def _drawn(
    words: Vocabulary, parent_words: Vocabulary, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """(row, the parent's row) with the parent's words in random order; each is used once before
    any is used twice."""
    order = rng.permutation(np.arange(len(SPECIALS), len(parent_words)))
    symbols = [(i, i) for i in range(len(SPECIALS))]
    return [*symbols, *((row, int(order[(row - len(SPECIALS)) % len(order)]))
                        for row in range(len(SPECIALS), len(words)))]


def _take(array: Array, parent_array: Array, rows: Sequence[tuple[int, int]] | None) -> None:
    """Write the parent's array, or rows of it, into the child's."""
    if rows is None:
        array[...] = parent_array
        return
    rows_to, rows_from = np.array(rows).T
    host = to_host(array).copy()
    host[rows_to] = to_host(parent_array)[rows_from]
    array[...] = to_device(host)


def _lines(facts: Mapping[str, Any]) -> list[str]:
    """Lines on what was taken; for tables, the numbers of Nguyen's Table 3.3."""
    after = "" if facts["step"] is None else f", after update {facts['step']}"
    fresh = f"; fresh: {', '.join(facts['fresh'])}" if facts["fresh"] else ""
    manner = {MATCH: "", RANDOM: ", drawn at random"}
    return [f"init: {facts['parent']}{after}: {facts['parameters']} parameters{fresh}",
            *(f"init: {name}: {table['taken']} of {table['words']} words have a row of the "
              f"parent's ({100 * table['taken'] / max(table['words'], 1):.1f} %)"
              f"{manner[table['by']]}" for name, table in facts["tables"].items())]
