"""Search over a shortlist of the target vocabulary, chosen for each batch.

Source: Sennrich's slides, "vocabulary subset per batch": the translations of the source's words in
a dictionary, and the most frequent words. The model has only these rows of its target tables, and
its softmax runs over them alone, so that the search may find another translation than with all
words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from backend import Array, to_device
from nmt.data.vocabulary import SPECIALS
from nmt.search.interface import Hypothesis

Find = Callable[..., list[list[Hypothesis]]]
TABLES = ("decoder", "output")  # prefixes of the tables of target words


@dataclass
class Shortlist:
    """The restriction of a batch to words that its sentences may be translated into."""

    candidates: Mapping[str, Sequence[int]]  # source word -> ids of its translations
    frequent: int  # number of the target's most frequent words, without <unk> and </s>
    size: int  # size of the target's vocabulary
    counts: list[int] = field(default_factory=list)  # size of each batch's shortlist so far

    def ids(self, sentences: Iterable[Sequence[str]]) -> np.ndarray:
        """(V',) the ascending ids of the words that sentences may be translated into."""
        chosen = set(range(min(self.size, len(SPECIALS) + self.frequent)))
        for sentence in sentences:
            for word in sentence:
                chosen.update(self.candidates.get(word, ()))
        return np.array(sorted(chosen), np.int64)

    def limited(self, find: Find, sentences: Sequence[Sequence[str]]) -> Find:
        """The search function `find`, restricted to the shortlist of these sentences."""
        ids = self.ids(sentences)
        self.counts.append(len(ids))

        def find_in_shortlist(model: Any, parameters: Mapping[str, Array], sources: Any) -> Any:
            lists = find(model, rows_of(model, parameters, ids), sources)
            return [[replace(hypothesis, tokens=[int(ids[token]) for token in hypothesis.tokens])
                     for hypothesis in nbest] for nbest in lists]

        return find_in_shortlist


def rows_of(model: Any, parameters: Mapping[str, Array], ids: np.ndarray) -> dict[str, Array]:
    """The parameters of a model, or of an ensemble, with only these rows of its target tables."""
    members = getattr(model, "members", None)
    weights = model.weights() if members is None else {
        f"{number}/{name}": weight for number, member in enumerate(members)
        for name, weight in member.weights().items()}
    rows = to_device(ids)
    return {name: array[rows] if _is_of_target(name, weights[name].axes) else array
            for name, array in parameters.items()}


def _is_of_target(name: str, axes: Sequence[Any]) -> bool:
    """Whether a parameter has a row for each target word."""
    return name.split("/")[-1].split(".")[0] in TABLES and axes[0].name == "word"
