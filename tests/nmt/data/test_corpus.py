"""Reading text files strictly, and preparing parallel lines."""

import os
import random
import threading

import pytest

from backend.errors import UserError
from nmt.data import corpus, stored
from nmt.data.corpus import (
    LONGEST,
    LONGEST_OF_TEXT,
    choose_pairs,
    plain_lines,
    prepare_pairs,
    read_lines,
    read_parallel,
    split_words,
    write_lines,
)
from nmt.data.sources import longest, shortened


def test_only_newlines_end_lines(tmp_path) -> None:
    path = tmp_path / "text"
    path.write_bytes("a\u0085b\nc\u2028d\x0ce\r\n\x1cf\n\nlast".encode())
    assert read_lines(path) == ["a\u0085b", "c\u2028d\x0ce", "\x1cf", "", "last"]


@pytest.mark.parametrize(("content", "lines"), [(b"", []), (b"\n", [""]), (b"a\n", ["a"])])
def test_the_last_newline_opens_no_line(tmp_path, content, lines) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    assert read_lines(path) == lines


def test_a_byte_order_mark_is_dropped_on_the_first_line_only(tmp_path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffa\n\ufeffb\n".encode())
    assert read_lines(path) == ["a", "\ufeffb"]


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path) -> None:
    path = tmp_path / "text"
    path.write_bytes("été\nfine\n".encode() + "été\n".encode("latin-1"))
    with pytest.raises(UserError) as caught:
        read_lines(path)
    assert str(caught.value) == f"{path}:3: expected UTF-8, got byte 0xe9 at column 1"


def test_a_line_has_a_longest_length(tmp_path) -> None:
    """The limit includes the line's end, and a device that never ends a line is not read
    further."""
    path, longest = tmp_path / "text", "é" * (LONGEST // 2 - 1) + "x"
    path.write_text(f"a\n{longest}\nb\n", "utf-8")
    assert read_lines(path) == ["a", longest, "b"]
    path.write_text(f"a\n{longest}x\nb\n", "utf-8")
    said = f"expected a line of at most {LONGEST:,} bytes, got more"
    for name, line in ((path, 2), ("/dev/zero", 1)):
        with pytest.raises(UserError) as caught:
            read_lines(name)
        assert str(caught.value) == f"{name}:{line}: {said}"
    assert read_lines(path, LONGEST_OF_TEXT)[1] == longest + "x"


def test_pipes_are_read(tmp_path) -> None:
    """A FIFO, and an open descriptor by its name, as in a process substitution."""
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Thread(target=(tmp_path / "fifo").write_text, args=("a\nb\n",))
    writer.start()
    assert read_lines(tmp_path / "fifo") == ["a", "b"]
    writer.join()
    end, other = os.pipe()
    os.write(other, b"c\n")
    os.close(other)
    assert read_lines(f"/dev/fd/{end}") == ["c"]
    os.close(end)


def test_parallel_files_of_different_length_are_named(tmp_path) -> None:
    (tmp_path / "a.en").write_text("1\n2\n3\n")
    (tmp_path / "a.fr").write_text("1\n2\n")
    with pytest.raises(UserError, match=r"a\.en has 3 lines.*a\.fr has 2"):
        read_parallel(tmp_path / "a.en", tmp_path / "a.fr")
    (tmp_path / "a.fr").write_text("1\n2\n\n")
    assert read_parallel(tmp_path / "a.en", tmp_path / "a.fr")[1] == ["1", "2", ""]


def test_a_missing_file_and_a_directory_are_named(tmp_path) -> None:
    (tmp_path / "a").write_text("x\n")
    with pytest.raises(UserError, match="absent"):
        read_parallel(tmp_path / "a", tmp_path / "absent")
    with pytest.raises(UserError, match="cannot be read"):
        read_lines(tmp_path)


def test_write_lines_is_read_lines_backwards(tmp_path) -> None:
    lines = ["a b", "", "c\u2028d"]
    write_lines(tmp_path / "text", lines)
    assert read_lines(tmp_path / "text") == lines
    with pytest.raises(ValueError, match="line end"):
        write_lines(tmp_path / "text", ["a\nb"])
    assert read_lines(tmp_path / "text") == lines
    with pytest.raises(UserError, match="cannot be written"):
        write_lines(tmp_path / "text" / "below a file", lines)


def test_words_stand_between_spaces_and_tabs() -> None:
    assert split_words(" a\t b\u00a0c  d\u0085 ") == ["a", "b\u00a0c", "d\u0085"]


def test_pairs_that_cannot_be_trained_on_are_counted_not_cut() -> None:
    source = ["a b", "", "a", " \t", "a b c d", "a", "a b c"]
    target = ["x", "x", "", "", "x", "x y z w", "x y z"]
    prepared = prepare_pairs(source, target, max_length=3)
    assert prepared.pairs == [(["a", "b"], ["x"]), (["a", "b", "c"], ["x", "y", "z"])]
    assert (prepared.empty, prepared.too_long) == (3, 2)
    assert len(prepare_pairs(source, target).pairs) == 4


def test_prepare_pairs_tokenises_and_checks() -> None:
    prepared = prepare_pairs(["ab"], ["cd"], tokenise_source=list, tokenise_target=list)
    assert prepared.pairs == [(["a", "b"], ["c", "d"])]
    with pytest.raises(ValueError, match="zip"):
        prepare_pairs(["a"], [])


ODD_LINES = (b"a\r\n", b"cafe\xcc\x81\n", b"\xef\xbb\xbfx\n", b"\n", b"b\rc\n", b"long" * 9 + b"\n",
             b"\xff\n", b"x" * LONGEST + b"\n", b"\xd7\x90\xd6\xb7 last")


@pytest.mark.parametrize("size", (1, 5, 64, 1 << 16))
@pytest.mark.parametrize("odd", ODD_LINES, ids=range(len(ODD_LINES)))
def test_blocks_are_read_as_lines_are(tmp_path, monkeypatch, size, odd) -> None:
    """Wherever a line that is changed or refused is, the note or error is the same."""
    monkeypatch.setattr(corpus, "READ", size)
    plain = "été\nfine\n\n a  b \n".encode()
    for content in (odd, odd + plain, plain + odd, plain * 3 + odd + plain, plain + odd * 2):
        path = tmp_path / "text"
        path.write_bytes(content)
        results = []
        for read in (plain_lines, None):
            lines, problem, notes = [], "", []
            with monkeypatch.context() as patch, open(path, "rb") as file:
                patch.setattr(corpus, "note", lambda about, text, notes=notes: notes.append(text))
                try:
                    lines += read(file, path) if read else corpus.stream_lines(path)
                except UserError as error:
                    problem = str(error)
            results.append((lines, problem, notes[:1]))
        assert results[0] == results[1]
        assert odd != b"\xff\n" or "expected UTF-8, got byte 0xff" in results[0][1]


@pytest.mark.parametrize("at_once", (1, 3, 1000))
@pytest.mark.parametrize("cut", (False, True))
@pytest.mark.parametrize("most", (None, 1, 2, 5, 99))
def test_pairs_are_chosen_one_after_another(monkeypatch, at_once, cut, most) -> None:
    """They are chosen as by a loop over pairs, wherever a block ends."""
    monkeypatch.setattr(stored, "AT_ONCE", at_once)
    rng = random.Random(3)
    pairs = [([*"abcdefg"[: rng.randrange(7)]], [*"xyzuvw"[: rng.randrange(6)]]) for _ in range(60)]
    pairs[7] = ["a", "b", "\n", "c"], ["x"]
    pairs[9] = ["a", "\n", *"bcdef"], ["x"]
    chosen, empty, too_long = [], 0, 0
    for source, target in pairs:
        if cut:
            source, target = shortened(source, 3), shortened(target, 3)
        if not (source and target):
            empty += 1
        elif max(longest(source), len(target)) > 3:
            too_long += 1
        else:
            chosen.append((source, target))
            if len(chosen) == most:
                break
    prepared = choose_pairs(pairs, 3, cut, most)
    assert prepared.pairs == chosen and (prepared.empty, prepared.too_long) == (empty, too_long)
    lengths = [[len(source), len(target)] for source, target in chosen]
    assert prepared.pairs.lengths.tolist() == lengths
