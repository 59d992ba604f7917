"""Files are read in normal form C, and tokenisers, spellers and merges keep letters with their
marks.
"""

from __future__ import annotations

import re
import unicodedata

import pytest
from tiny_run import nmt

from nmt.data.bpe import Codes, learn
from nmt.data.characters import Spelling, character_vocabulary
from nmt.data.corpus import decode_lines, read_lines
from nmt.data.letters import is_mark, letters
from nmt.data.pieces import PieceOptions, build
from nmt.data.tokenise import TOKENISERS, tokeniser
from nmt.data.vocabulary import Vocabulary
from nmt.language_models import text_of, tokens_of

TEXTS = {  # with marks that normal form C leaves: x and n, Devanagari, Thai, Hebrew, Arabic
    "x": "Le x\u030cy, n\u0308o.", "hi": "हिन्दी में लिखा, है।", "th": "วันที่ 7", "he": "שָׁלוֹם, עוֹלָם",
    "ar": "كَتَبَ، كِتَابٌ",
}  # fmt: skip


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def test_letters() -> None:
    assert letters("élan") == ["é", "l", "a", "n"]
    assert letters("x\u030c\u0323y") == ["x\u030c\u0323", "y"]
    assert letters("\u0301a \u0301b") == ["\u0301", "a", " ", "\u0301", "b"]
    assert letters("हिन्दी") == ["हि", "न्", "दी"]
    assert letters("ascii") == list("ascii") and letters("") == []
    assert is_mark("\u0301") and is_mark("ि") and not is_mark("é") and not is_mark("न")


@pytest.mark.parametrize("name", TOKENISERS)
def test_decomposed_text_is_cut_as_composed_text(name) -> None:
    cutter = tokeniser(name, "fr")
    text = "L'élève naïf, où est-il ? Ça va, Việt Nam: Å."
    assert decomposed(text) != text
    assert cutter.tokenise(decomposed(text)) == cutter.tokenise(text)
    assert cutter.detokenise([decomposed("élève")]) == "élève"
    if name != "letters":
        assert any("élève" in token for token in cutter.tokenise(decomposed(text)))


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", TOKENISERS)
def test_no_tokeniser_parts_a_letter_from_its_marks(name, language) -> None:
    text = unicodedata.normalize("NFC", TEXTS[language])
    cutter = tokeniser(name, language)
    assert any(map(is_mark, text))
    words = cutter.tokenise(text)
    assert not any(is_mark(word.lstrip("￭")[0]) for word in words)
    assert re.sub("[\u2581￭ ]", "", "".join(words)) == text.replace(" ", "")


def test_moses_cuts_words_with_marks_as_those_without() -> None:
    cutter = tokeniser("moses", "en")
    assert cutter.tokenise("x\u030cy isn't \u0301 No. 7 n\u0308...\x01") == \
        ["x\u030cy", "isn", "'t", "\u0301", "No.", "7", "n\u0308", "..."]


def test_characters_of_a_speller() -> None:
    characters = character_vocabulary([["x\u030cy", "x\u030c"], ["xz"]], 200)
    assert sorted(characters.words[2:]) == sorted(["x\u030c", "y", "x", "z"])
    spelling = Spelling(Vocabulary([]), characters)
    assert spelling.word(spelling.spelled("x\u030cyz")) == "x\u030cyz"
    assert len(spelling.spelled("x\u030cyz")) == 3


def test_a_speller_of_bare_characters_reads_as_before() -> None:
    """The speller of an older run, in which a mark is a character."""
    spelling = Spelling(Vocabulary([]), Vocabulary(["x", "\u030c", "y"]))
    assert spelling.spelled("x\u030cyq") == (2, 3, 4, 0)


def test_merges_join_letters_with_their_marks() -> None:
    pytest.importorskip("subword_nmt")
    counts = {"x\u030cy": 5, "ax\u030cy": 3, "हिन्दी": 4, "\u0301a": 3, "ab": 2}
    codes = learn(counts, 20, "merges")
    assert ("x\u030c", "y</w>") in codes.merges and ("हि", "न्") in codes.merges
    assert not any(is_mark(piece[0]) for merge in codes.merges for piece in merge)
    assert codes.cut("bx\u030cy") == ["b@@", "x\u030cy"]
    assert codes.cut("ox\u030c") == ["o@@", "x\u030c"]
    made = build(counts, codes, PieceOptions(), "source")
    assert "".join(made.whole(made.pieces(["हिन्दीx\u030c"]))) == "हिन्दीx\u030c"


def test_merges_of_bare_characters_work_as_before() -> None:
    """Merges of an older run, or of subword-nmt itself, which join marks."""
    codes = Codes([("x", "\u030c"), ("x\u030c", "y</w>")])
    assert codes.cut("x\u030cy") == ["x\u030cy"] and codes.cut("n\u0308") == ["n@@", "\u0308"]


def test_characters_of_a_language_model() -> None:
    tokens = tokens_of(["x\u030c y"], "characters")
    assert tokens == ["x\u030c", "\u2581", "y", "\\n"]
    assert text_of(tokens, "characters") == "x\u030c y\n"


# --- files ----------------------------------------------------------------------------------------


def test_files_are_read_in_normal_form_c_but_for_our_own(tmp_path) -> None:
    path = tmp_path / "a.fr"
    path.write_text("a\n\ufeff" + decomposed("élève") + "\r\nb\n", "utf-8", newline="")
    assert read_lines(path) == ["a", "\ufeffélève", "b"]
    assert decode_lines(path)[1] == "\ufeff" + decomposed("élève") + "\r"


def test_a_note_says_so_once_a_file(tmp_path, capsys) -> None:
    for name, text in (("a", "un\nélève\nà\n"), ("b", "un\nélève\nà\n")):
        (tmp_path / name).write_text(decomposed(text) if name == "a" else text, "utf-8")
    assert nmt("score", tmp_path / "a", tmp_path / "b") == 0
    out, said = capsys.readouterr()
    assert "BLEU" in out and "100.0" not in out
    assert said == f"{tmp_path / 'a'}:2: not in Unicode's normal form C; scored as it is, as " \
                   "sacrebleu does: letters of the two forms differ\n"
    assert read_lines(tmp_path / "a")[1] == "élève" and capsys.readouterr().err == ""  # no command


def test_a_run_translates_and_scores_decomposed_text_as_composed_text(corpus, capsys) -> None:
    """The toy target has an ü, which becomes a letter and a mark."""
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "run", "--train.epochs", 1,
               "--data.tokenise", "moses") == 0
    for name in ("dev.de", "dev.en"):
        text = (corpus / name).read_text("utf-8").replace("one", "né")
        (corpus / name).write_text(text, "utf-8")
        (corpus / f"nfd.{name}").write_text(decomposed(text), "utf-8")
    outputs = []
    for start in ("", "nfd."):
        capsys.readouterr()
        for verb in ("perplexity", "evaluate"):
            assert nmt(verb, corpus / f"{start}dev.en", corpus / f"{start}dev.de",
                       "--model", corpus / "run") == 0
        out, said = capsys.readouterr()
        outputs.append(out.replace(f"{start}dev", "dev"))
        assert said.count("normal form C") == (4 if start else 0)
    assert outputs[0] == outputs[1]
