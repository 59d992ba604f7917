"""`nmt translate` of files and at a terminal."""

from __future__ import annotations

import gzip
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import ROOT, captured, complaint, lines_of, nmt, printed, start, write_recipe

from nmt.cli.arriving import Arriving


def test_files_are_translated_one_after_another(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(trained / "test.en", encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert nmt("translate", "--model", trained / "model") == 0
    piped = capsys.readouterr().out
    first, other = trained / "one.en", trained / "other.en"
    lines = (trained / "test.en").read_text("utf-8").splitlines(keepends=True)
    first.write_text("".join(lines[:2]), "utf-8")
    other.write_text("".join(lines[2:]), "utf-8")
    assert printed(capsys, "translate", first, other, "--model", trained / "model") == piped


def test_attention_is_drawn_beside_the_lines(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trained / "two.en").write_text("one two\n\nthree\n", "utf-8")
    said = captured(capsys, "translate", trained / "two.en", "--model", trained / "model", "--show",
                    "attention")
    assert said.out.count("\n") == 3 and "1 one  2 two" in said.err and "1 three" in said.err


@pytest.mark.parametrize("files, options, said", [
    (["none.en"], [], "none.en: cannot be read"),
    (["long.en"], [], "long.en:2: expected at most 1000 words"),
    (["bad.en"], [], "bad.en:1: expected UTF-8"),
    (["huge.en"], [], "huge.en:2: expected a line of at most 262,144 bytes, got more"),
    (["test.en"], ["--replace-unk", "/dev/zero"], "/dev/zero:1: expected a line of at most"),
    ([], ["long.en"], "long.en: expected a run directory, got a file; files to translate"),
])
def test_errors_come_before_any_line(
    files: list[str], options: list[str], said: str, trained: Path,
    capsys: pytest.CaptureFixture[str]
) -> None:
    Path("long.en").write_text("one\n" + "one " * 1001 + "\n", "utf-8")
    Path("bad.en").write_bytes(b"\xff\n")
    Path("huge.en").write_text("one\n" + "one " * 2_500_000 + "\n", "utf-8")
    assert nmt("translate", *files, "--model", "model", *options, "--strict") == 2
    output = capsys.readouterr()
    assert output.out == "" and said in output.err and output.err.count("\n") == 1


def test_an_invalid_line_affects_only_itself(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is too long, is not UTF-8, or has far too many bytes becomes an empty line, with
    a warning."""
    plain = lines_of(capsys, "translate", "test.en", "--model", "model")
    lines = Path("test.en").read_bytes().splitlines(keepends=True)
    odd = [b"one " * 1001 + b"\n", b"one \xff\n", b"one " * 100_000 + b"\n"]
    Path("odd.en").write_bytes(b"".join([lines[0], odd[0], *lines[1:3], *odd[1:], *lines[3:]]))
    for source in (["odd.en"], []):
        with open("odd.en", encoding="utf-8") as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            said = captured(capsys, "translate", *source, "--model", "model", "--alignments",
                            "links")
        assert said.out.split("\n") == [plain[0], "", *plain[1:3], "", "", *plain[3:], ""]
        name = source[0] if source else "<stdin>"
        after = "; not translated, its line in the output is empty\n"
        assert said.err == (
            f"{name}:2: expected at most 1000 words (data.max_translate_length), got 1001{after}"
            f"{name}:5: expected UTF-8, got byte 0xff at column 5{after}"
            f"{name}:6: expected a line of at most 262,144 bytes, got more{after}")
        assert len(Path("links").read_text().splitlines()) == len(lines) + 3


def test_a_symbol_of_a_language_is_a_word_to_a_model_of_one(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("second.en").write_text("<2nd> one\nother one\n")
    first, second = lines_of(capsys, "translate", "second.en", "--model", "model")
    assert first == second
    assert "expected a model of several target languages" in complaint(
        capsys, "translate", "second.en", "--model", "model", "--target-token", "<2nd>")


@pytest.mark.parametrize("options", [[], ["--unbuffered"]])
def test_a_pipe_that_pauses_is_answered(
    trained: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    process = start("translate", "--model", trained / "model", *options, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    answers = []
    for lines in (b"one two\n", b"three\n\nfour\n", b"fi"):
        process.stdin.write(lines)
        process.stdin.flush()
        answers += [process.stdout.readline() for _ in range(lines.count(b"\n"))]
    out, _ = process.communicate(b"ve")
    answers.append(out)
    Path("whole.en").write_text("one two\nthree\n\nfour\nfive")
    text = printed(capsys, "translate", "whole.en", "--model", trained / "model").encode()
    assert b"".join(answers) == text and text.count(b"\n") == 5 and process.returncode == 0


def test_lines_arrive_whole() -> None:
    """Lines arrive whole, in whatever pieces a pipe delivers them. A line that is too long comes in
    parts, as from a file."""
    ours, theirs = os.pipe()
    content = b"one\n\n" + b"x" * 30_000 + b"\ntwo"
    os.write(theirs, content)
    os.close(theirs)
    arriving = Arriving(ours, lambda: None)
    assert [*iter(lambda: arriving.readline(20_000), b"")] == [
        b"one\n", b"\n", b"x" * 20_000, b"x" * 10_000 + b"\n", b"two"]
    os.close(ours)


def test_compressed_files_by_name(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("test.en.gz").write_bytes(gzip.compress(Path("test.en").read_bytes()))
    plain = lines_of(capsys, "translate", "test.en", "--model", "model", "--alignments", "a")
    assert lines_of(capsys, "translate", "test.en.gz", "--model", "model", "--alignments",
                    "a.gz") == plain
    assert gzip.decompress(Path("a.gz").read_bytes()) == Path("a").read_bytes()
    good = Path("test.en.gz").read_bytes()
    for content, said in ((b"plain text\n", "Not a gzipped file"), (good[:-9], "ended before")):
        Path("test.en.gz").write_bytes(content)
        assert said in complaint(capsys, "translate", "test.en.gz", "--model", "model")


# A verb with files by the names {i} (read) and {o} (written) at their ends: "" or ".gz".
COMPRESSED = [
    "train --train train.en{i} train.de{i} --dev dev.en{i} dev.de{i} --test test.en{i} test.de{i} "
    "--output run{i} --train.epochs 0.2 --model.hidden_size 4 --model.embedding_size 4",
    "init mine{i}.yaml --train train.en{i} train.de{i}",
    "score test.de{i} test.de{i}", "score test.de{i} test.de{i} --compare dev.de{i}x",
    "perplexity test.en{i} test.de{i} --model model --log-probabilities {o}",
    "evaluate test.en{i} test.de{i} --model model --output report{i}",
    "align train.en{i} train.de{i} --method model1 -o {o}",
    "align test.en{i} test.de{i} --model model -o {o}",
    "dictionary test.en{i} test.de{i} {o} --links links{i} --min-count 1",
    "attention test.en{i} --model model --line 1",
    "statistics train.en{i} train.de{i}", "detokenise test.de{i} --output {o}",
    "bpe join test.de{i} --output {o}",
    "factors test.en{i} test.en{i} --output {o}",
    "lm perplexity test.de{i} --model lm",
    "rerank test.en{i} lists{i} --model model --weights weights.json --nbest-output {o}",
    "aer links{i} gold{i} --source test.en{i} --target test.de{i}",
    "back-translate test.de{i} --model model --source other{i} --target {o}",
    "restore test.en{i} test.de{i} --method posall --dictionary words{i} --output {o}",
    "annotate train.en{i} train.de{i} --method posall --links all-links{i} "
    "--source-vocabulary 4 --target-vocabulary 4 --output marked{i}",
    "bpe learn train.en{i} --merges 3 --output {o}",
    "bpe apply codes{i} test.en{i} --output {o}",
    "join-pairs test.en{i} test.de{i} --most 2 --output joined{i}",
    "brackets plain{i} trees{i} --output {o}",
]


@pytest.mark.parametrize("command", COMPRESSED, ids=lambda command: command.split("{")[0])
def test_every_verb_reads_and_writes_compressed_files(
    command: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = Path("test.en").read_text("utf-8").splitlines()
    texts = {"links": "0-0\n" * 6, "gold": "0-0\n" * len(sentences), "words": "one\teins\n",
             "all-links": "0-0\n" * len(Path("train.en").read_text("utf-8").splitlines()),
             "codes": "#version: 0.2\no n\nt w\n", "trees": "( XX XX )\n", "plain": "one two\n",
             "lists": "".join(f"{i} ||| eins ||| log_p= -1 ||| -1\n"
                              for i in range(len(sentences)))}
    for name, content in texts.items():
        Path(name).write_text(content, "utf-8")
    Path("weights.json").write_text('{"log_p": 1, "words": 0, "model:model": 1}', "utf-8")
    for path in [*Path().glob("*.en"), *Path().glob("*.de"), *map(Path, texts)]:
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    for name in ("dev.dex", "dev.de.gzx"):
        Path(name).write_bytes(Path("test.de").read_bytes())
    actual = []
    for end in ("", ".gz"):
        arguments = command.format(i=end, o=f"written{end}").split()
        lines = [line.replace(".gz", "").split() for line in lines_of(capsys, *arguments)]
        actual.append([words for words in lines if not {"second", "s"} & {*words}])  # no times
    assert actual[0] == actual[1]
    if "{o}" in command:
        assert gzip.decompress(Path("written.gz").read_bytes()) == Path("written").read_bytes()


def converse(*arguments: object, typed: str) -> tuple[int, str]:
    """Run a command in a new terminal; return its exit status and the screen."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt", *map(str, arguments)],
        stdin=terminal, stdout=terminal, stderr=terminal,
        cwd=ROOT, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "TERM": "dumb"})
    os.close(terminal)
    os.write(main, typed.encode())
    seen = b""
    while True:
        try:
            seen += os.read(main, 4096)
        except OSError:  # the terminal closes with the process
            break
    os.close(main)
    return process.wait(), seen.decode().replace("\r", "")


def test_a_dialogue(trained: Path) -> None:
    links = trained / "links"
    code, seen = converse(
        "translate", "--model", trained / "model", "--show", "attention", "--alignments", links,
        typed=f"one two\nbanana one banana\n{'a ' * 1001}\none\n\n")
    assert code == 0
    assert f"en to de by {trained / 'model'}: a sentence a line" in seen
    answered = seen.partition("ends.")[2]
    assert "eins zwei\n" in answered and "1 one  2 two" in answered
    assert "not in the vocabulary, read as <unk>: banana\n" in answered
    assert "sentence:1: expected at most 1000 words" in answered
    assert len(links.read_text("utf-8").splitlines()) == 3


def test_the_demonstration_says_what_it_knows(tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path / "r.yaml", {"data": {"corpus": "cldr", "train_size": 50, "dev_size": 5,
                                       "test_size": 0},
                              "model": {"layers": 1, "hidden_size": 4, "embedding_size": 4},
                              "train": {"epochs": 1}})
    assert nmt("train", recipe, "--output", tmp_path / "demo") == 0
    code, seen = converse("translate", "--model", tmp_path / "demo", typed="\x04")
    assert code == 0 and "It was trained on generated phrases of dates" in seen
    examples = seen.partition("Try:\n")[2].partition(">")[0].splitlines()
    assert len(examples) == 3 and all(line.startswith("  ") for line in examples)
