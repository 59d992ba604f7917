"""Byte pair encoding against subword-nmt, the slides' toy, vocabularies of pieces."""

import io
from collections import Counter
from random import Random

import pytest

from backend.errors import UserError
from nmt.data.bpe import Codes, joined, learn, word_places
from nmt.data.pieces import PieceOptions, PieceVocabulary, build, codes_of, read_vocabulary
from nmt.data.vocabulary import Vocabulary

TOY = {"low": 5, "lower": 2, "newest": 6, "widest": 3}  # Sennrich's slide
CODES = Codes([("e", "s"), ("es", "t</w>"), ("l", "o"), ("lo", "w")])


def library():
    """subword-nmt, where it is installed."""
    pytest.importorskip("subword_nmt")
    from subword_nmt import apply_bpe
    return apply_bpe


def test_the_slides_toy() -> None:
    """es, est</w>, lo, low. In version 0.2 the end is part of the last character from the start:
    est with </w> is no merge, low at a word's end is another than in lower, and of pairs that occur
    equally often, e s and s t</w>, the library takes the last in the alphabet."""
    library()
    assert CODES.cut("lowest") == ["low@@", "est"]
    assert CODES.cut("lower") == ["low@@", "e@@", "r"] and CODES.cut("low") == ["lo@@", "w"]
    assert learn(TOY, 3, "merges").merges == (("s", "t</w>"), ("e", "st</w>"), ("l", "o"))


def test_the_slides_string() -> None:
    """aaabdaaabac is XdXac with X = ZY, Y = ab, Z = aa: of three a the first two are merged."""
    codes = Codes([("a", "a"), ("a", "b"), ("aa", "ab")])
    assert codes.cut("aaabdaaabac") == ["aaab@@", "d@@", "aaab@@", "a@@", "c"]
    assert Codes([("a", "a")]).cut("aaaab") == ["aa@@", "aa@@", "b"]


def words_of(rng: Random, count: int) -> list[str]:
    """Words of few letters, some of them not ASCII, so that many merges apply."""
    return ["".join(rng.choices("aabbcdeü漢", k=rng.randint(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module")
def learned() -> Codes:
    library()
    return learn(Counter(words_of(Random(1), 2000)), 300, "merges")


def theirs(codes: Codes, vocabulary=None):
    """The library's encoder with these codes."""
    text = "\n".join(["#version: 0.2", *map(" ".join, codes.merges)]) + "\n"
    return library().BPE(io.StringIO(text), vocab=vocabulary)


def test_words_are_cut_as_subword_nmt_cuts_them(learned) -> None:
    """All words, with and without a vocabulary that lacks some pieces."""
    words, plain = words_of(Random(2), 5000), theirs(learned)
    assert [learned.cut(word) for word in words] == [plain.segment_tokens([w]) for w in words]
    every = Counter(piece for word in words for piece in learned.cut(word))
    known = {piece for piece, n in every.items() if n >= 30}
    limited = theirs(learned, known)
    assert 0 < len(known) < len(every)
    assert [learned.finer(learned.cut(word), known) for word in words] == \
        [limited.segment_tokens([w]) for w in words]


def test_dropout_draws_as_often_as_subword_nmt(learned) -> None:
    """In 3,000 draws of each, the shares of a word's segmentations differ by less than 0.05."""
    import random
    word, draw = "aabbaab", Random(3).random
    ours = Counter(tuple(learned.cut(word, 0.3, draw)) for _ in range(3000))
    random.seed(4)
    other = theirs(learned)
    expected = Counter(tuple(other.segment_tokens([word], dropout=0.3)) for _ in range(3000))
    assert len(ours) > 5
    assert max(abs(ours[way] - expected[way]) for way in ours.keys() | expected.keys()) < 150


def test_pieces_join_to_their_words(learned) -> None:
    words = words_of(Random(5), 300)
    draw = Random(6).random
    pieces = [piece for word in words for piece in learned.cut(word, 0.5, draw)]
    assert joined(pieces) == words
    places = word_places(pieces)
    assert len(places) == len(pieces) and places[-1] == len(words) - 1
    assert joined(["low@@", "er", "lo@@"]) == ["lower", "lo"]  # cut at a limit on length


def test_a_file_is_read_as_it_was_written_and_by_the_library(tmp_path, learned) -> None:
    learned.write(tmp_path / "codes")
    assert Codes.read(tmp_path / "codes") == learned
    with open(tmp_path / "codes", encoding="utf-8") as file:
        assert list(library().BPE(file).bpe_codes) == list(reversed(learned.merges))


@pytest.mark.parametrize("text", [
    "#version: 0.2\ne s\nes t</w>\n\n\n", "#version: 0.2\r\ne s\r\nes t</w>\r\n",
    "#version: 0.2\ne s\nl o\ne s\nes t</w>\n", "#version: 0.2\ne s \na\tb c\nes t</w>",
    "e s\nes t\nest </w>\nl o\n", "#version: 0.1\nl o\nlo w\nlow </w>\nw </w>\n\n"])
def test_odd_forms_are_read_as_subword_nmt_reads_them(tmp_path, text) -> None:
    """Blank last lines, a merge twice, a merge with a tab, codes of version 0.1."""
    (tmp_path / "codes").write_bytes(text.encode())
    codes = Codes.read(tmp_path / "codes")
    words = ["lowest", "est", "low", "slow", "lo", "s"]
    for known in (None, {"l@@", "o@@", "low", "es@@", "t"}, {"lo@@", "w", "e@@"}):
        other = library().BPE(io.StringIO(text.replace("\r", "")), vocab=known)
        cut = [codes.cut(word) for word in words]
        if known is not None:
            cut = [codes.finer(pieces, known) for pieces in cut]
        if known is None or not codes.end_apart:  # the library loses a word's last piece there
            assert cut == [other.segment_tokens([word]) for word in words]
        assert [joined(pieces) for pieces in cut] == [[word] for word in words]
    codes.write(tmp_path / "again")
    assert Codes.read(tmp_path / "again") == codes


def test_a_return_within_a_word_is_a_character_that_no_merge_has() -> None:
    library()
    codes = learn({"a\rb": 9, "ab": 2, "a\rbb": 5}, 9, "merges")
    assert codes.merges and not any("\r" in symbol for merge in codes.merges for symbol in merge)
    assert codes.cut("a\rb") == ["a@@", "\r@@", "b"]


@pytest.mark.parametrize("text, problem", [
    ("#version: 0.3\ne s\n", ":1: expected #version: 0.2, or none of codes of version 0.1, got "
                             "'#version: 0.3'"),
    ("", ":1: expected #version: 0.2, got nothing"),
    ("the\nof\n", ":1: expected two symbols with a space between them, got 'the'"),
    ("#version: 0.2\ne s\ne s t\n", ":3: expected two symbols with a space between them, got "
                                    "'e s t'"),
    ("#version: 0.2\ne \n", ":2: expected two symbols with a space between them, got 'e'"),
])
def test_codes_that_are_none(tmp_path, text, problem) -> None:
    (tmp_path / "codes").write_text(text)
    with pytest.raises(UserError) as caught:
        Codes.read(tmp_path / "codes")
    assert str(caught.value) == f"{tmp_path / 'codes'}{problem}"
    with pytest.raises(ValueError, match="merges: expected two symbols"):
        Codes([("a", "b c")])


def test_no_pair_to_learn() -> None:
    library()
    with pytest.raises(UserError, match=r"^merges: expected words with a pair .* got none in 2"):
        learn({"a": 5, "bc": 1}, 4, "merges")


# --- vocabularies ---------------------------------------------------------------------------------


def test_a_vocabulary_has_the_pieces_of_its_words() -> None:
    vocabulary = build(TOY, CODES, PieceOptions(), "source")
    assert vocabulary.words[2:5] == ("est", "w@@", "e@@")  # 9, 9 and 8 times
    assert vocabulary.pieces(["lowest", "low"]) == ["low@@", "est", "lo@@", "w"]
    assert vocabulary.ids(vocabulary.pieces(["vex"])) == [0, vocabulary.ids(["e@@"])[0], 0]
    side = build({word: n for word, n in TOY.items() if word != "lower"}, CODES, PieceOptions(), "")
    assert side.pieces(["lowest"]) == ["lo@@", "w@@", "est"]  # no word of this side has low@@


def test_a_piece_below_the_threshold_is_cut_further() -> None:
    vocabulary = build(TOY, CODES, PieceOptions(threshold=3), "source")
    assert "low@@" not in vocabulary.words and vocabulary.pieces(["lower"])[:2] == ["lo@@", "w@@"]
    with pytest.raises(UserError) as caught:
        build(TOY, CODES, PieceOptions(threshold=99), "source")
    assert str(caught.value) == (
        "data.subwords.threshold: expected pieces of the source that occur 99 times or more, got "
        "none; the most frequent occurs 9 times")


def test_dropout_finds_no_unknown_piece() -> None:
    """The pieces of other draws are in the vocabulary, or are cut into pieces that are."""
    vocabulary = build(TOY, CODES, PieceOptions(dropout=0.5), "source")
    draw = Random(9).random
    ways = {tuple(vocabulary.drawn(["widest"], 0.5, draw)) for _ in range(200)}
    assert len(ways) > 2 and all(0 not in vocabulary.ids(way) for way in ways)
    assert all(vocabulary.whole(way) == ["widest"] for way in ways)


def test_symbols_of_annotated_text_stay_whole() -> None:
    counts = TOY | {"<unkpos_1>": 2, "<unk>": 1}
    vocabulary = build(counts, CODES, PieceOptions(threshold=3), "target")
    assert vocabulary.pieces(["<unkpos_1>", "<unk>"]) == ["<unkpos_1>", "<unk>"]
    assert vocabulary.ids(["<unkpos_1>"]) != [0] and vocabulary.ids(["<unk>"]) == [0]


def test_codes_lie_beside_the_vocabulary(tmp_path) -> None:
    path = tmp_path / "source.vocab"
    build(TOY, CODES, PieceOptions(), "source").write(path)
    vocabulary = read_vocabulary(path)
    assert isinstance(vocabulary, PieceVocabulary) and vocabulary.codes == CODES
    codes_of(path).unlink()
    assert type(read_vocabulary(path)) is Vocabulary
