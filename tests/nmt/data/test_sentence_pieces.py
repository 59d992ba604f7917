"""SentencePiece as a vocabulary's segmenter: raw text in, raw text out."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from tiny_run import complaint, lines_of, nmt, write_corpus, write_recipe

from backend.errors import UserError
from nmt.data.corpus import read_lines
from nmt.data.pieces import PieceOptions, PieceVocabulary, build, codes_of, read_vocabulary
from nmt.data.sentence_pieces import SentencePieces, learn
from nmt.system import System

spm = pytest.importorskip("sentencepiece")

TEXT = ["It isn't, at 2:30, « l'home » d'avui…", "日本語のテキスト。",
        "12\u00a0000\u00a0€ می\u200cروم"] * 3
COUNTS = Counter(word for line in TEXT for word in line.split(" "))


def test_pieces_restore_the_words() -> None:
    codes = learn(COUNTS, 60, "data.subwords.size")
    for line in [*TEXT, "unseen words, ☃ « too"]:
        words = line.split(" ")
        pieces = [piece for word in words for piece in codes.cut(word)]
        assert codes.joined(pieces) == words
        assert codes.places(pieces)[-1] == len(words) - 1
        assert codes.joined(codes.finer(pieces, ())) == words
    assert codes.joined(["▁a", "b", "<unk>", "▁c"]) == ["ab", "<unk>", "c"]


def test_they_are_the_librarys_own() -> None:
    codes = learn(COUNTS, 60, "size")
    theirs = spm.SentencePieceProcessor(model_proto=codes.model)
    for line in TEXT:
        assert [piece for word in line.split(" ") for piece in codes.cut(word)] == \
            theirs.encode(line, out_type=str)


def test_a_vocabulary_keeps_its_model(tmp_path: Path) -> None:
    codes = learn(COUNTS, 60, "size")
    vocabulary = build(COUNTS, codes, PieceOptions(), "source")
    vocabulary.write(tmp_path / "source.vocab")
    reread = read_vocabulary(tmp_path / "source.vocab")
    assert isinstance(reread, PieceVocabulary) and reread.codes == codes
    assert reread.whole(reread.pieces(TEXT[0].split(" "))) == TEXT[0].split(" ")
    codes_of(tmp_path / "source.vocab").write_bytes(b"\nxyz")
    with pytest.raises(UserError, match="expected merges or a model of SentencePiece, got neither"):
        read_vocabulary(tmp_path / "source.vocab")


@pytest.mark.parametrize("counts, said", [
    ({}, "got: it learned nothing"), ({chr(0x4e00 + i): 1 for i in range(99)}, "got: Vocabulary"),
])
def test_too_little_text_and_too_few_pieces(counts: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match="^data.subwords.size: .*" + said):
        learn(counts, 50, "data.subwords.size")


def test_a_run_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                       capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    small = {"kind": "sentencepiece", "size": 40}
    write_recipe(tmp_path / "r.yaml", data={"subwords": small})
    assert nmt("train", "r.yaml", "--output", "m") == 0
    system = System.open("m")
    assert isinstance(system.source.codes, SentencePieces)
    assert system.source.codes == system.target.codes
    capsys.readouterr()
    lines = lines_of(capsys, "translate", "test.en", "--model", "m", "--alignments", "links")
    assert len(lines) == 6 and not any("▁" in line for line in lines)
    for links, source in zip(lines_of(capsys, "align", "test.en", "test.de", "--model", "m"),
                             read_lines("test.en"), strict=True):
        assert all(int(link.split("-")[0]) < len(source.split()) for link in links.split())

    made = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(read_lines("train.en")), vocab_size=40,
                                   model_writer=made, hard_vocab_limit=False, minloglevel=2)
    Path("own.model").write_bytes(made.getvalue())
    theirs = {"kind": "sentencepiece", "source_codes": "own.model", "target_codes": "own.model"}
    write_recipe(tmp_path / "theirs.yaml", data={"subwords": theirs})
    assert nmt("train", "theirs.yaml", "--output", "theirs", "--train.epochs", 1) == 0
    assert System.open("theirs").source.codes == SentencePieces(made.getvalue())
    capsys.readouterr()
    for changes, said in (
            ({"tokenise": "joiner", "subwords": small}, "tokenise: expected 'none' beside"),
            ({"subwords": small | {"dropout": 0.1}}, "dropout: expected none of the kind sentence"),
            ({"subwords": small | {"merges": 9}}, "merges: expected none of the kind sent"),
            ({"subwords": {"size": 9}}, "size: expected none of the kind bpe, got 9"),
            ({"subwords": theirs | {"kind": "bpe"}}, "subwords.kind: expected sentencepiece, the"),
            ({"subwords": {"kind": "unigram"}}, "kind: expected one of bpe, sentencepiece, got")):
        write_recipe(tmp_path / "r.yaml", data=changes)
        assert said in complaint(capsys, "train", "r.yaml", "--output", "n")
