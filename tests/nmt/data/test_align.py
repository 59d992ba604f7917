"""Gold files, links, and error rates worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.errors import UserError
from nmt.data.align import (
    AlignmentScore,
    Gold,
    GoldOptions,
    alignment_score,
    pharaoh_line,
    read_gold,
)

SIZES = [(3, 2), (1, 1), (2, 4)]


def gold_file(path, text, options=None, sizes=SIZES):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_gold(path, sizes, options)


def gold(sure, possible=()):
    return Gold(frozenset(sure), frozenset(sure) | frozenset(possible))


@pytest.mark.parametrize("text", [
    "0-0 2-1 1?0\n\n1-3 0p2 0-2\n",
    b"\xef\xbb\xbf0-0 2-1 1p0 1?0\r\n \t\r\n1-3 0-2",  # a byte order mark, foreign line ends
])
def test_pharaoh(tmp_path, text) -> None:
    assert gold_file(tmp_path / "g", text) == (
        [gold([(0, 0), (2, 1)], [(1, 0)]), gold([]), gold([(1, 3), (0, 2)])], 0)


@pytest.mark.parametrize("text", [
    "1 1 1 S\n1 3 2\n1 2 1 P\n3 2 4 S 0.9\n3 1 3 P\n3 1 3 S\n",
    b"\xef\xbb\xbf0001 1 1 S \n3 2 4 1.0\n\n3 1 3 S\n3 1 3 P\n1  3\t2 S\n1 2 1 P\n",
])
def test_naacl(tmp_path, text) -> None:
    assert gold_file(tmp_path / "g", text) == (
        [gold([(0, 0), (2, 1)], [(1, 0)]), gold([]), gold([(1, 3), (0, 2)])], 0)


def test_numbering_and_order_can_be_said(tmp_path) -> None:
    expected = gold([(0, 0), (2, 1)])
    for text, options in (
        ("1-1 3-2\n\n\n", GoldOptions(first=1)),
        ("1 0 0\n1 2 1\n", GoldOptions(first=0)),
        ("0-0 1-2\n\n\n", GoldOptions(swapped=True)),
        ("1 1 1\n1 2 3\n", GoldOptions(swapped=True)),
    ):
        assert gold_file(tmp_path / "g", text, options).gold[0] == expected


@pytest.mark.parametrize(("text", "options", "message"), [
    ("0-0\n", None, r"g: expected a line for each of 3 sentence pairs, found 1"),
    ("0-0\n\n\n\n", None, r"g: expected a line for each of 3 sentence pairs, found 4"),
    ("", None, r"g: expected a line for each of 3 sentence pairs, found 0"),
    ("0-0\n\n0-3 2-3\n", None, r"g:3: link '2-3': expected a source word from 0 to 1, got 2"),
    ("0-2\n\n\n", None, r"g:1: link '0-2': expected a target word from 0 to 1, got 2"),
    ("0-1\n\n\n", GoldOptions(first=1), r"g:1: link '0-1': .*source word from 1 to 3, got 0"),
    ("0-1\n0x1\n\n", None, r"g:2: expected links such as 3-4 \(sure\) or 3\?4 .*, got '0x1'"),
    ("0-1\n1 1 1 S\n\n", None, r"g:2: expected links such as"),
    ("0-1\n-1-0\n\n", None, r"g:2: expected links such as .*, got '-1-0'"),
    ("1 1 1 S\n1 4 1 P\n", None, r"g:2: link '1 4 1 P': expected a source word from 1 to 3, got 4"),
    ("1 0 1 S\n", None, r"g:1: link '1 0 1 S': expected a source word from 1 to 3, got 0"),
    ("1 1 1 S\n\n4 1 1 S\n", None, r"g:3: expected a sentence from 1 to 3, got 4"),
    ("0 1 1 S\n", GoldOptions(drop=True), r"g:1: expected a sentence from 1 to 3, got 0"),
    ("1 1 1 X\n", None, r"g:1: expected 'sentence source target', then S or P or nothing"),
    ("1 1\n", None, r"g:1: expected 'sentence source target'"),
    ("1 1 1 S\n0-0 1-1\n", None, r"g:2: expected 'sentence source target'"),
    (b"0-0\n\xff\n\n", None, r"g:2: expected UTF-8, got byte 0xff"),
])
def test_bad_files_are_named_with_their_line(tmp_path, text, options, message) -> None:
    with pytest.raises(UserError, match=message):
        gold_file(tmp_path / "g", text, options)


def test_links_out_of_range_can_be_left_out_and_are_counted(tmp_path) -> None:
    sentences, dropped = gold_file(tmp_path / "g", "0-0 7-1 0-2\n1-0\n\n", GoldOptions(drop=True))
    assert sentences == [gold([(0, 0)]), gold([]), gold([])] and dropped == 3


# --- the error rate ---------------------------------------------------------------------------


def test_error_rate_by_hand() -> None:
    # |A| = 5, |S| = 4, |A and S| = 2, |A and P| = 3: 1 - 5/9
    links = [[(0, 0), (1, 1), (2, 2)], [(0, 1), (1, 0)]]
    people = [gold([(0, 0), (1, 1)], [(2, 2)]), gold([(0, 0), (1, 1)], [(2, 0)])]
    score = alignment_score(links, people)
    assert score == AlignmentScore(5, 4, 2, 3)
    assert score.error_rate == pytest.approx(4 / 9)
    assert (score.precision, score.recall) == (pytest.approx(3 / 5), pytest.approx(2 / 4))


def test_the_corpus_is_counted_not_averaged() -> None:
    # One sentence right with 1 link, one wrong with 3: 1 - 2/8, the mean would be 1/2
    links = [[(0, 0)], [(0, 1), (1, 2), (2, 0)]]
    people = [gold([(0, 0)]), gold([(0, 0), (1, 1), (2, 2)])]
    assert alignment_score(links, people).error_rate == pytest.approx(3 / 4)


def test_possible_links_alone_cost_nothing() -> None:
    assert alignment_score([[(0, 0)]], [gold([], [(0, 0)])]).error_rate == 0.0
    assert alignment_score([[]], [gold([(0, 0)], [(1, 1)])]) == AlignmentScore(0, 1, 0, 0)
    assert alignment_score([[]], [gold([(0, 0)])]).error_rate == 1.0


def test_a_link_counts_once() -> None:
    assert alignment_score([[(0, 0), (0, 0)]], [gold([(0, 0)])]) == AlignmentScore(1, 1, 1, 1)


def test_wrong_corpora() -> None:
    with pytest.raises(ValueError, match="expected at least one link"):
        alignment_score([[]], [gold([], [(0, 0)])])


PLACES = st.tuples(st.integers(0, 5), st.integers(0, 5))
LINKS = st.sets(PLACES, max_size=8)


@settings(deadline=None)
@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_error_rate_properties(corpus) -> None:
    links = [a for a, _, _ in corpus]
    people = [gold(sure, possible) for _, sure, possible in corpus]
    if not sum(map(len, links)) + sum(len(sentence.sure) for sentence in people):
        return
    score = alignment_score(links, people)
    assert 0.0 <= score.error_rate <= 1.0
    # with S = P it is one minus the F-score
    plain = alignment_score(links, [gold(sentence.sure) for sentence in people])
    total = plain.precision + plain.recall
    f = 2 * plain.precision * plain.recall / total if total else 0.0
    assert plain.error_rate == pytest.approx(1 - f)
    # the gold links themselves are without error, more possible links make nothing worse
    if any(sentence.sure for sentence in people):
        assert alignment_score([sentence.sure for sentence in people], people).error_rate == 0.0
    assert score.error_rate <= plain.error_rate + 1e-12
    # swapping the languages changes nothing
    transposed = [{(t, s) for s, t in a} for a in links]
    transposed_gold = [Gold(*(frozenset((t, s) for s, t in pairs) for pairs in sentence))
                       for sentence in people]
    assert alignment_score(transposed, transposed_gold) == score


@settings(deadline=None, max_examples=30)
@given(st.lists(LINKS, min_size=1, max_size=4))
def test_what_is_written_can_be_read(tmp_path_factory, corpus) -> None:
    path = tmp_path_factory.getbasetemp() / "links"
    text = "".join(pharaoh_line(sorted(links)) + "\n" for links in corpus)
    sentences = gold_file(path, text, sizes=[(6, 6)] * len(corpus)).gold
    assert sentences == [gold(links) for links in corpus]
