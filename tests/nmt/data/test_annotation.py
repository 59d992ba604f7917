"""Annotating and restoring unknown words: the thesis's examples, and properties of any pair."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.annotation import METHODS, Rules, annotate, link_probabilities, symbol_of
from nmt.data.restoration import resolve, restore

# Figures 3.1 and 3.2: the printed words, without commas and what follows.
ENGLISH = "The ecotax portico in Pont-de-Buis".split()
FRENCH = "Le portique écotaxe de Pont-de-Buis".split()
LINKS = [(0, 0), (2, 1), (1, 2), (4, 4)]
SOURCE_WORDS, TARGET_WORDS = {"The", "portico", "in"}, {"Le", "de"}


def annotated(method, pair=(ENGLISH, FRENCH), links=LINKS, **rules):
    counts = Counter()
    known = {"source_words": SOURCE_WORDS, "target_words": TARGET_WORDS, **rules}
    source, target = annotate(pair, links, Rules(method, **known), counts)
    return " ".join(source), " ".join(target), dict(counts)


def test_figure_3_2_copyable() -> None:
    assert annotated("copyable") == (
        "The <unk_1> portico in <unk_2>", "Le <unk_0> <unk_1> de <unk_2>",
        {"null": 1, "pointed": 2})


def test_figure_3_3_posall_with_the_text_s_sign() -> None:
    """The first two unknown words have d = -1 and 1; the last one, 4 linked to 4, has 0
    (erratum)."""
    assert annotated("posall") == (
        "The <unk> portico in <unk>", "Le <p_0> <unk> <p_-1> <unk> <p_1> de <p_null> <unk> <p_0>",
        {"pointed": 3})


def test_posunk_and_noalign() -> None:
    assert annotated("posunk")[:2] == (
        "The <unk> portico in <unk>", "Le <unkpos_-1> <unkpos_1> de <unkpos_0>")
    assert annotated("posunk", links=LINKS[:2])[1:] == (
        "Le <unkpos_-1> <unkpos_null> de <unkpos_null>", {"pointed": 1, "null": 2})
    assert annotated("noalign") == (
        "The <unk> portico in <unk>", "Le <unk> <unk> de <unk>", {"unknown": 3})


TABLE_3_3 = [
    ("An additional 2600 operations including orthopedic and cataract surgery will help clear a "
     "backlog .",
     "En outre , <unkpos_1> opérations supplémentaires , dont la chirurgie <unkpos_5> et la "
     "<unkpos_6> , permettront de résorber l’ arriéré .",
     {"orthopedic": ["orthopédiques"], "cataract": ["cataracte"]},
     {3: "2600", 10: "orthopédiques", 13: "cataracte"}),
    ("This trader , Richard Usher , left RBS in 2010",
     "Ce <unkpos_0> , Richard <unkpos_0> , a quitté <unkpos_1> en 2010",
     {"trader": ["négociateur"]}, {1: "négociateur", 4: "Usher", 8: "RBS"}),
    ("But concerns have grown after Mr Mazanga was quoted as saying Renamo was abandoning the 1992 "
     "peace accord .",
     "Mais les inquiétudes se sont accrues après que M. <unkpos_3> a déclaré que la <unkpos_3> "
     "<unkpos_3> l’ accord de paix de 1992 .",
     {"was": ["était"]}, {9: "Mazanga", 14: "Renamo", 15: "était"}),
]


@pytest.mark.parametrize(("source", "translation", "dictionary", "expected"), TABLE_3_3)
def test_table_3_3(source, translation, dictionary, expected) -> None:
    """i = j - d with positions from 0 gives the words that the thesis prints after replacement."""
    words = translation.split()
    resolved = resolve(words, source.split(), "posunk")
    restored = restore(resolved, source.split(), dictionary)
    changed = {j: word for j, word in enumerate(restored) if word != words[j]}
    assert changed == expected and len(restored) == len(words)
    assert +resolved.counts == {"pointed": len(expected)}
    before = [word if symbol_of(word) is None else "<unk>" for word in words]
    assert resolved.words == before


def test_words_over_seven_away_are_unaligned() -> None:
    source, target = [f"s{n}" for n in range(10)], ["x", *"abcdefghi"]
    for i, symbol, outcome in ((7, "-7", "pointed"), (8, "null", "far")):
        got = annotated("posunk", (source, target), [(i, 0)], target_words=set("abcdefghi"))
        assert got[1:] == (f"<unkpos_{symbol}> a b c d e f g h i", {outcome: 1})
    # Copyable has no window.
    assert annotated("copyable", (source, target), [(9, 0)], target_words=set("abcdefghi"))[1] \
        .startswith("<unk_10> a")


def test_repeated_unknown_words_have_one_number() -> None:
    pair = (["u", "The", "v", "u"], ["x", "y", "x"])
    assert annotated("copyable", pair, [(3, 0), (2, 1), (0, 2)]) == (
        "<unk_1> The <unk_2> <unk_1>", "<unk_1> <unk_2> <unk_1>", {"pointed": 3})
    resolved = resolve(["<unk_1>", "<unk_2>"], pair[0], "copyable", SOURCE_WORDS)
    assert resolved.links == [(0, 0), (2, 1)]


def test_of_several_links_the_most_probable_then_the_nearest() -> None:
    pair = (["a", "b", "c"], ["Le", "x"])
    links = [(0, 1), (2, 1)]
    assert annotated("posunk", pair, links)[1] == "Le <unkpos_1>"  # as near as c, but before it
    assert annotated("posunk", pair, [(1, 1), *links])[1] == "Le <unkpos_0>"
    probable = {("a", "x"): 0.2, ("c", "x"): 0.7}
    assert annotated("posunk", pair, links, probability=probable)[1] == "Le <unkpos_-1>"
    # Copyable takes no known word, however probable.
    assert annotated("copyable", pair, links, source_words={"c"}, probability=probable)[1] \
        == "Le <unk_1>"


def test_probabilities_are_shares_of_a_source_word_s_links() -> None:
    pairs = [(["a", "b"], ["x", "y"]), (["a"], ["x"]), (["a"], ["z"])]
    probabilities = link_probabilities(pairs, [[(0, 0), (1, 1)], [(0, 0)], [(0, 0)]])
    assert probabilities == {("a", "x"): 2 / 3, ("a", "z"): 1 / 3, ("b", "y"): 1.0}


@pytest.mark.parametrize("word", ["<unk>", "</s>", "<unk_0>", "<unk_3>", "<p_-7>", "<p_null>",
                                  "<unkpos_null>", "<unkpos_4>"])
def test_words_spelt_like_symbols_are_unknown_words(word) -> None:
    got = annotated("posunk", ([word], [word]), [(0, 0)], source_words={word}, target_words={word})
    assert got == ("<unk>", "<unkpos_0>", {"pointed": 1})


def test_symbols_are_parsed() -> None:
    assert [symbol_of(word) for word in ("<p_0>", "<unkpos_-7>", "<unk_0>", "<p_null>")] \
        == [("posall", 0), ("posunk", -7), ("copyable", None), ("posall", None)]
    for word in ("p_0", "<p_>", "<p_1.5>", "<unk_-1>", "<unk_>", "<unk>", "a<p_0>", "<unkpos_+1>"):
        assert symbol_of(word) is None


# --- any system's output --------------------------------------------------------------------------

SOURCE = ["a", "u", "b", "v"]  # u and v are unknown
KNOWN = {"a", "b"}
OUTPUT = [  # method, translation, links, words before, counts
    ("posunk", "<unkpos_9> x <unkpos_-9>", [(0, 0), (3, 2)], "<unk> x <unk>",
     {"pointed": 2, "outside": 2}),
    ("posunk", "<unk> <unkpos_null> <unkpos_0>", [(2, 2)], "<unk> <unk> <unk>",
     {"null": 2, "pointed": 1}),
    ("posall", "x <p_1> <unk> <p_0> <unk> <p_null> <unk>", [(1, 1)], "x <unk> <unk> <unk>",
     {"pointed": 1, "null": 2}),
    ("posall", "<p_1> x <p_0> <p_2> <unk> <p_-1> y", [(2, 1)], "x <unk> y",
     {"pointed": 1, "stray": 2}),
    ("posall", "<unk> <p_-5>", [(3, 0)], "<unk>", {"pointed": 1, "outside": 1}),
    ("copyable", "<unk_2> <unk_7> <unk_0> <unk>", [(3, 0), (3, 1)], "<unk> <unk> <unk> <unk>",
     {"pointed": 2, "outside": 1, "null": 2}),
    ("noalign", "<unk> x <unk> <unk>", [(1, 0), (3, 2)], "<unk> x <unk> <unk>",
     {"pointed": 2, "null": 1}),
]


@pytest.mark.parametrize(("method", "text", "links", "before", "counts"), OUTPUT)
def test_what_models_may_write(method, text, links, before, counts) -> None:
    resolved = resolve(text.split(), SOURCE, method, KNOWN)
    assert resolved.links == links and resolved.words == before.split()
    assert +resolved.counts == counts
    restored = restore(resolved, SOURCE, {"u": ["two", "words"]})
    linked = {j: i for i, j in links}
    expected = [SOURCE[linked[j]] if j in linked else word for j, word in enumerate(resolved.words)]
    assert " ".join(restored) == " ".join(expected).replace("u", "two words").replace(
        "<two wordsnk>", "<unk>")


@pytest.mark.parametrize(("method", "text"), [
    ("copyable", "<unk_1>"), ("posall", "<unk> <p_1>"), ("posunk", "<unkpos_1>"),
    ("noalign", "<unk>")])
def test_nothing_to_point_at(method, text) -> None:
    resolved = resolve(text.split(), [], method, KNOWN)
    assert (resolved.words, resolved.links, +resolved.counts) == (["<unk>"], [], {"null": 1})


def test_symbols_and_rules_of_another_method() -> None:
    with pytest.raises(ValueError, match="expected symbols of posunk, got <p_1> of posall"):
        resolve(["<p_1>"], SOURCE, "posunk")
    with pytest.raises(ValueError, match=r"method: expected one of noalign, .* got 'posone'"):
        Rules("posone", set(), set())


# --- what holds for any pair ----------------------------------------------------------------------

WORD = st.sampled_from(["a", "b", "c", "d", "<unk>", "<p_1>", "<unk_1>"])
SENTENCE = st.lists(WORD, max_size=12)
SOME = st.sets(st.sampled_from("abcd"))


@given(SENTENCE, SENTENCE, st.data(), SOME, SOME, st.sampled_from(METHODS[1:]))
def test_restoring_annotated_references(source, target, data, source_words, target_words, method):
    """Known words are restored. An unknown word with a link within the window becomes its source
    word's translation, or the source word. Otherwise it is `<unk>`, and counted."""
    places = st.integers(0, len(source) - 1) if source else st.nothing()
    linked = {j: data.draw(places) for j in range(len(target))
              if source and data.draw(st.booleans())}
    dictionary = data.draw(st.dictionaries(st.sampled_from("ab"), SENTENCE.filter(bool)))
    counts = Counter()
    links = [(i, j) for j, i in linked.items()]
    _, marked = annotate((source, target), links, Rules(method, source_words, target_words), counts)
    expected, nulls = [], 0
    for j, word in enumerate(target):
        i = linked.get(j)
        if word in target_words:
            expected.append(word)
        elif i is None or (abs(j - i) > 7 if method != "copyable" else source[i] in source_words):
            expected.append("<unk>")
            nulls += 1
        else:
            expected += dictionary.get(source[i], [source[i]])
    resolved = resolve(marked, source, method, source_words)
    assert restore(resolved, source, dictionary) == expected
    assert resolved.counts["null"] == counts["null"] + counts["far"] == nulls
    assert resolved.counts["pointed"] == counts["pointed"] == \
        sum(word not in target_words for word in target) - nulls
    assert not resolved.counts["outside"] and not resolved.counts["stray"]


@given(SENTENCE, st.sets(st.sampled_from("abcd")))
def test_references_come_back_where_each_word_is_linked_to_itself(words, known) -> None:
    """restore(annotate(reference)) = reference, since every pointer leads to the reference's
    word."""
    links = [(n, n) for n in range(len(words))]
    for method in METHODS:
        _, marked = annotate((words, words), links, Rules(method, known, known), Counter())
        resolved = resolve(marked, words, method, known)
        assert restore(resolved, words, {}) == words
