"""Both directions together: agreement, and the aligner on text whose links are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.aligner import METHODS, align
from nmt.data.aligner.agreement import Agreement
from nmt.data.aligner.symmetrise import grow_diag_final_and, intersection
from nmt.data.aligner.word_pairs import word_pairs
from nmt.data.cldr import CldrOptions, generate

WORDS = st.lists(st.sampled_from("abc"), max_size=4)
CORPORA = st.lists(st.tuples(WORDS, WORDS), max_size=6)


def tables(corpus, flat):
    """Posteriors as {(pair, generating word or None for NULL, generated word): p}."""
    posteriors = {}
    for group in corpus.groups:
        rows = group.of(flat)
        for j, step in enumerate(group.steps()):
            for pair, row in zip(group.pairs, rows[step], strict=False):
                for i, value in enumerate(row):
                    posteriors[int(pair), i - 1 if i else None, j] = value
    return posteriors


@given(CORPORA)
def test_agreement_multiplies_the_two_posteriors_of_each_link(pairs) -> None:
    sources, targets = [x for x, _ in pairs], [y for _, y in pairs]
    corpora = word_pairs(sources, targets), word_pairs(targets, sources)
    rng = np.random.default_rng(len(pairs))
    flats = [rng.uniform(size=len(corpus.types)) for corpus in corpora]
    for corpus, flat in zip(corpora, flats, strict=True):
        for group in corpus.groups:
            group.of(flat)[:] /= group.of(flat).sum(1, keepdims=True)
    forward, backward = (tables(corpus, flat) for corpus, flat in zip(corpora, flats, strict=True))
    assert len(forward) == sum((len(x) + 1) * len(y) for x, y in pairs if x and y)
    Agreement(*corpora).multiply(*flats)
    new_forward, new_backward = (tables(corpus, flat)
                                 for corpus, flat in zip(corpora, flats, strict=True))
    for (pair, i, j), value in forward.items():
        if i is None:
            rest = 1 - sum(new_forward[pair, k, j] for k in range(len(sources[pair])))
            assert new_forward[pair, None, j] == pytest.approx(rest)
        else:
            product = value * backward[pair, j, i]
            assert new_forward[pair, i, j] == new_backward[pair, j, i] == pytest.approx(product)


def numbered(rng, swap):
    """Sentences of numbers, and the same with every word marked and, if asked for, neighbours
    exchanged."""
    sources, targets, links = [], [], []
    for _ in range(300):
        words = rng.integers(0, 12, rng.integers(1, 4) * 2).tolist()
        order = [n ^ 1 if swap else n for n in range(len(words))]
        sources.append([f"s{n}" for n in words])
        targets.append([f"t{words[i]}" for i in order])
        links.append(sorted((i, j) for j, i in enumerate(order)))
    return sources, targets, links


def share_wrong(aligned, links):
    """The number of wrong and missing links, relative to the right ones."""
    return sum(len({*actual} ^ {*right}) for actual, right in zip(aligned, links, strict=True)) \
        / sum(map(len, links))


@pytest.mark.parametrize(("swap", "allowed"), [(False, 0.0), (True, 0.03)])
def test_word_for_word_text_is_aligned(swap, allowed) -> None:
    """The HMM learns the order, so that words that occur twice in a sentence are right, too. Of
    alternating jumps by -1 and 3 it learns only the mixture."""
    sources, targets, links = numbered(np.random.default_rng(1), swap)
    for aligned in align(sources, targets)[:2]:
        assert share_wrong(aligned, links) <= allowed
    for aligned in align(sources, targets, "model1")[:2]:
        assert share_wrong(aligned, links) > 0.1


def test_model_1_knows_words_but_no_order() -> None:
    sources, targets, links = numbered(np.random.default_rng(1), swap=False)
    (forward, *_) = align(sources, targets, "model1")
    wrong = [(n, i, j) for n, sentence in enumerate(forward) for i, j in sentence
             if (i, j) not in links[n]]
    assert wrong and all(sources[n][i] == sources[n][j] for n, i, j in wrong)


def test_the_embedded_corpus() -> None:
    """English and French words of the same meaning are linked, with the same links in every run."""
    pairs = generate(CldrOptions("en", "fr", 2000, 1, 0, seed=1)).train
    sources, targets = [x for x, _ in pairs], [y for _, y in pairs]
    *directions, entries = align(sources, targets)
    assert (*directions, entries) == align(sources, targets)
    both = [intersection(forward, backward)
            for forward, backward in zip(*directions, strict=True)]
    linked = {(sources[n][i], targets[n][j]) for n, links in enumerate(both) for i, j in links}
    counts = {word: sum(word in words for words in sources) for word in ("Monday", "January")}
    assert all(counts.values())
    assert {("Monday", "lundi"), ("January", "janvier")} <= linked
    share = np.mean([len(links) / max(len(x), len(y))
                     for links, x, y in zip(both, sources, targets, strict=True)])
    assert share > 0.5


@given(CORPORA, st.sampled_from(METHODS))
@settings(deadline=None)
def test_any_corpus_has_links_within_its_sentences(pairs, method) -> None:
    sources, targets = [x for x, _ in pairs], [y for _, y in pairs]
    forwards, backwards, _ = align(sources, targets, method, iterations=2)
    assert len(forwards) == len(backwards) == len(pairs)
    for x, y, forward, backward in zip(sources, targets, forwards, backwards, strict=True):
        for i, j in grow_diag_final_and(forward, backward):
            assert 0 <= i < len(x) and 0 <= j < len(y)
        assert len({j for _, j in forward}) == len(forward)
        assert len({i for i, _ in backward}) == len(backward)


def test_progress_and_errors() -> None:
    told = []
    align([["a"]], [["x"]], tell=lambda done, rounds: told.append((done, rounds)), iterations=2)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    with pytest.raises(ValueError, match="zip"):
        align([["a"]], [])
