"""Analyses of translations with rare words (thesis, section 3.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count, pairwise, takewhile

import numpy as np

from nmt.analysis.lengths import Group, bleu_of_places
from nmt.data.annotation import symbol_of
from nmt.evaluation.scores import perplexity
from nmt.translation import Translation

ORDERS = ("rank", "inverse")
EDGES = (100, 200, 500)  # ends of Figure 3.5's first groups; further groups have 500 sentences


def is_position(word: str) -> bool:
    """Whether a word is a positional symbol of posall."""
    symbol = symbol_of(word)
    return symbol is not None and symbol.method == "posall"


def perplexities_by_class(forced: Sequence[Translation]) -> dict[str, tuple[float, int]]:
    """The perplexities of words and of positions, the two numbers of PosAll in Figure 3.6.

    forced: force-decoded references. Returns the perplexity and the number of steps for "words",
    which include end markers, and for "positions". A class without steps is left out.
    """
    nats, steps = {"words": 0.0, "positions": 0.0}, {"words": 0, "positions": 0}
    for translation in forced:
        if translation.steps is None:
            continue
        positions = np.array([*map(is_position, translation.words), False])
        for name, chosen in (("words", ~positions), ("positions", positions)):
            nats[name] -= float(translation.steps[chosen].sum())
            steps[name] += int(chosen.sum())
    return {name: (perplexity(nats[name], count), count) for name, count in steps.items() if count}


def rarities(
    sources: Sequence[Sequence[str]], corpus: Sequence[Sequence[str]], order: str = ORDERS[0]
) -> list[float]:
    """The average rarity of each sentence's words, by which Figure 3.5 sorts the sentences.

    order: "rank" is the mean rank of the words by their frequency in the corpus, with ties in
    alphabetical order and words outside the corpus after the last rank (the figure's "average
    frequency rank"). "inverse" is the mean of 1 / frequency, with 1 for words outside the corpus
    (the text's "average inverse frequency"; docs/errata.md, 26). Empty sentences have 0.
    """
    counts = Counter(word for sentence in corpus for word in sentence)
    if order == "rank":
        words = sorted(counts, key=lambda word: (-counts[word], word))
        values = {word: float(rank) for rank, word in enumerate(words, 1)}
        other = len(words) + 1.0
    else:
        values, other = {word: 1.0 / number for word, number in counts.items()}, 1.0
    return [sum(values.get(word, other) for word in sentence) / max(len(sentence), 1)
            for sentence in sources]


def bleu_by_rarity(
    rarity: Sequence[float], hypotheses: Sequence[str], references: Sequence[str],
    tokenize: str = "13a",
) -> list[Group]:
    """Corpus BLEU of groups of sentences, from those with frequent words to those with rare ones.

    Source: thesis section 3.4.1, Figure 3.5: sentences are sorted by rarity (stable), and groups
    end at sentence 100, 200, 500, 1000, 1500 and so on.

    rarity: the rarity of each source sentence. hypotheses, references: lines in the same order.
    tokenize: sacrebleu's.
    """
    order = sorted(range(len(rarity)), key=lambda i: rarity[i])
    regular = takewhile(lambda edge: edge < len(order), count(2 * EDGES[-1], EDGES[-1]))
    edges = [0, *(edge for edge in EDGES if edge < len(order)), *regular, len(order)]
    groups = []
    for low, high in pairwise(edges):
        places = order[low:high]
        groups.append(Group(f"{low + 1}-{high}", len(places),
                            bleu_of_places(places, hypotheses, references, tokenize)))
    return groups
