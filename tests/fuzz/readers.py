"""The readers of files that a stranger may have written, each with valid inputs to start from.

A reader returns, or raises a UserError that names the file in one line. All else is a defect.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz.checkpoints import make_checkpoint, read_checkpoint
from fuzz.mutate import mutated, odd_json

from backend.errors import UserError
from nmt.analysis.similarity import read_pairs
from nmt.data.align import GoldOptions, number_of_pairs, read_gold
from nmt.data.annotation import METHODS
from nmt.data.bpe import Codes, joined
from nmt.data.corpus import prepare_pairs, read_lines, read_parallel, split_words, write_lines
from nmt.data.nbest import line_of, read_nbest
from nmt.data.rare_words import read_dictionary, write_dictionary
from nmt.data.restoration import resolve
from nmt.data.tokenise import TOKENISERS, tokeniser
from nmt.data.vocabulary import Vocabulary
from nmt.evaluation.curves import read_curve
from nmt.evaluation.speed import read_speed
from nmt.pruning.schemes import SCHEMES
from nmt.recipe import AnyRecipe
from nmt.recipe.file import as_text, load_recipe
from nmt.training.log import Log
from nmt.training.run import LAST, LOG

assert SCHEMES  # importing it makes the modules of pruned runs known


@dataclass(frozen=True)
class Reader:
    """A kind of file."""

    read: Callable[[Path], None]  # of a file in a directory of its own
    make: Callable[[Random], bytes]  # an input
    file: str = "input"
    inputs: int = 100_000


# --- recipes --------------------------------------------------------------------------------------

FILES = "data: {train_source: a, train_target: b, dev_source: c, dev_target: d"
RECIPES = [text.encode() for text in (
    f"{FILES}}}\nmodel: {{layers: 1, hidden_size: 8, dropout: 0.1}}\n",
    f"{FILES}, max_length: null}}\ntrain:\n  epochs: 2.5\n  optimizer: adam\n  max_norm: null\n",
    f"{FILES}}}\nmodel:\n  architecture: hybrid\n  alpha: 0.5\nsearch: {{beam: 3, unknown: no}}\n",
    f"{FILES}}}\nmodel: {{architecture: rnnsearch}}\nparametrize:\n  frozen: ['*.b']\n"
    "  normalized: {encoder.W_e: 1.5}\n",
    "text: {train: t, level: words}\nmodel: {architecture: language_model, unit: gru}\n",
    "data: &a {corpus: cldr, seed: 3}\nmodel: {score: dot}\nevaluate: {bleu: false}\n",
    "data: {corpus: reverse}\ntrain: {schedule: plateau, plateau_factor: 0.5}\n# end\n",
    "base: input\ndata: {corpus: reverse}\n",
)]
WORDS = tuple(word.encode() for word in (
    "model", "layers", "tied", "architecture", "data.seed", "base: x\n", "? ", "!!int ", "!!float ",
    "!!set", "!!binary ", "!!timestamp ", "!!bool ", "!!omap ", "!!python/object:os.system",
    "2001-01-01", "2001-99-99", "190:20:30", ".inf", ".nan", "0b", "{a: 1}", "&a [*a]", "---\n",
))


def read_recipe(path: Path) -> None:
    """Read a recipe; written and read again, it must be the same."""
    recipe = load_recipe(AnyRecipe, path)
    again = path.with_name("again.yaml")
    again.write_text(as_text(recipe), "utf-8")
    assert load_recipe(AnyRecipe, again) == recipe


def read_overrides(path: Path) -> None:
    """Read overrides, one per line, as on the command line."""
    given = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    plain = path.with_name("plain.yaml")
    plain.write_bytes(RECIPES[0])
    try:
        load_recipe(AnyRecipe, plain, given)
    except UserError as error:
        assert "override" in str(error) or str(plain) in str(error), str(error)
        raise UserError(str(path)) from None


OVERRIDES = [text.encode() for text in (
    "--model.layers=2", "--train.epochs=1e1\n--search.beam=4", "--model.architecture=hybrid",
    "--parametrize.frozen=[a, b]", "--parametrize.tied={a: b}", "--data.max_length=null",
    "--model.unit=rnn\n--model.dropout=.5", "--train.optimizer=sgd", "--model.biases=no",
)]


# --- links, logs, words ---------------------------------------------------------------------------

LINKS = [b"0-0 1-1 2?1\n\n0p0\n", b"1 1 1\n1 2 2 S\n2 1 1 P 0.5\n", b"0-0\n1-0 0-1\n0-2\n",
         b"3 9 9\n", b"\xef\xbb\xbf0-0\n\n\n"]


def read_links(path: Path) -> None:
    """Read links with and without the sentences."""
    errors = []
    known = partial(read_gold, path, [(2, 3), None, (1, 1)], GoldOptions(drop=True))
    for read in (known, partial(read_gold, path, [None] * 3, GoldOptions(first=1, swapped=True)),
                 partial(number_of_pairs, path)):
        try:
            read()
        except UserError as error:
            errors.append(error)
    for error in errors[1:]:
        assert str(path) in str(error)
    if errors:
        raise errors[0]


RECORDS: list[Any] = [
    {"event": "note", "step": 0, "epoch": 1, "text": "x"},
    {"event": "update", "step": 2, "epoch": 1, "loss": 1.5, "perplexity": 4.5, "target_tokens": 30,
     "target_tokens_per_second": 1e3, "elapsed_seconds": 0.1, "cpu_seconds": 0.2,
     "gradient_norm": 1.0, "learning_rate": 0.1},
    {"event": "epoch", "step": 2, "epoch": 1, "loss": None, "perplexity": 4.0, "improved": True,
     "scores": {"perplexity": 4.0, "bleu": 12.5}},
]
LOGS = ["".join(json.dumps(record) + "\n" for record in RECORDS).encode(),
        *(json.dumps(record).encode() for record in RECORDS)]


def make_log(rng: Random) -> bytes:
    """A log with changed bytes, or with changed values of a record."""
    if rng.random() < 0.5:
        return mutated(rng, LOGS)
    lines = [odd_json(rng, record) if rng.random() < 0.5 else json.dumps(record)
             for record in rng.choices(RECORDS, k=rng.randrange(1, 4))]
    return "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")


def read_logs(path: Path) -> None:
    """Read a log as a resumed run does, and for learning curves and speeds."""
    before = path.read_bytes()
    Log(path).keep(lambda record: record["step"] <= 2 and record["event"] != "epoch")
    path.write_bytes(before)
    curve = read_curve(path.parent, "x")
    assert np.isfinite([value for _, value in curve.train_cost + curve.test_cost]).all()
    read_speed(path.parent)


def read_vocabulary(path: Path) -> None:
    """Read a vocabulary; written again, it must be the same."""
    words = Vocabulary.read(path)
    again = path.with_name("again")
    words.write(again)
    assert Vocabulary.read(again).words == words.words


def read_words(path: Path) -> None:
    """Read a dictionary; written again, it must be the same."""
    dictionary = read_dictionary(path)
    again = path.with_name("again")
    write_dictionary(again, dictionary)
    assert read_dictionary(again) == dictionary


def read_corpus(path: Path) -> None:
    """Read a corpus parallel to itself: all tokenisers cut each line and join it to one line
    again."""
    lines = read_lines(path)
    assert len(read_parallel(path, path)[0]) == len(lines)
    for name in TOKENISERS:
        cut = tokeniser(name, "en")
        words = [cut.tokenise(line) for line in lines]
        for tokens in words:
            assert not any(word == "" or " " in word or "\n" in word for word in tokens), tokens
            assert "\n" not in cut.detokenise(tokens)
    prepared = prepare_pairs(lines, lines, 5, cut=True)
    assert len(prepared.pairs) + prepared.empty == len(lines)
    again = path.with_name("again")
    write_lines(again, lines)
    assert read_lines(again) == [line.removesuffix("\r").removeprefix("\ufeff" * (not number))
                                 for number, line in enumerate(lines)]


CORPUS = ["one two  three\n\nvier, fünf.\n".encode(),
          "Don't — \u201cquote\u201d & <b> 3.5%\r\n".encode(),
          "漢字 かな\n\u0440\u0443\u0441 e\u0301\u00a0x\n".encode(), b"a|b [c] {d} &amp; @-@ \tq\n"]


def read_symbols(path: Path) -> None:
    """Read annotated translations and restore them by every method."""
    source = "a b c d".split()
    for number, line in enumerate(read_lines(path), 1):
        for method in METHODS:
            try:
                resolved = resolve(split_words(line), source, method, frozenset("ab"))
            except ValueError as error:  # of another method, as `nmt restore` says
                assert str(error).startswith(f"expected symbols of {method}"), number
            else:
                assert all(0 <= i < 4 for i, _ in resolved.links)


SYMBOLS = [b"a <unk> b\n", b"<unk_1> c <unk_0> <unk_7>\n", b"a <p_-1> <unk> <p_2> b <p_null>\n",
           b"<unkpos_1> x <unkpos_-7> <unkpos_null>\n"]


def read_codes(path: Path) -> None:
    """Read codes, write them again, and cut and join some words by them."""
    codes = Codes.read(path)
    again = path.with_name("again")
    codes.write(again)
    assert Codes.read(again) == codes
    for word in ("lowest", "x", "\u00fcber", "aaaa", "</w>"):
        for pieces in (codes.cut(word), codes.cut(word, 0.5, Random(1).random)):
            assert joined(pieces) == [word], pieces
            assert joined(codes.finer(pieces, ())) == [word], pieces


def read_lists(path: Path) -> None:
    """Read an n-best list, and write it again."""
    lists = read_nbest(path)
    again = path.with_name("again")
    write_lines(again, [line_of(n, hypothesis) for n, nbest in enumerate(lists)
                        for hypothesis in nbest])
    assert [[hypothesis.text for hypothesis in nbest] for nbest in read_nbest(again)] == \
        [[hypothesis.text for hypothesis in nbest] for nbest in lists]


LISTS = [b"0 ||| a b ||| log_p= -1.5 cut= 0 ||| -1.5\n0 ||| a ||| log_p= -2 cut= 0 ||| -2\n"
         b"1 |||  ||| log_p= -1e3 cut= 1 ||| -1000\n"]
CODES = [b"#version: 0.2\ne s\nes t</w>\nl o\nlo w\n", "#version: 0.2\n\u00fc b\n".encode()]

READERS = {
    "recipe": Reader(read_recipe, lambda rng: mutated(rng, RECIPES, WORDS)),
    "overrides": Reader(read_overrides, lambda rng: mutated(rng, OVERRIDES, WORDS), inputs=20_000),
    "vocabulary": Reader(read_vocabulary, lambda rng: mutated(
        rng, [b"<unk>\n</s>\none\nzwei\n", b"<unk>\n</s>\n"])),
    "checkpoint": Reader(read_checkpoint, make_checkpoint, LAST),
    "links": Reader(read_links, lambda rng: mutated(rng, LINKS)),
    "log": Reader(read_logs, make_log, LOG),
    "dictionary": Reader(read_words, lambda rng: mutated(
        rng, [b"eins\tone\nzwei\ttwo words\n\n", "ü\tu e\n".encode()])),
    "corpus": Reader(read_corpus, lambda rng: mutated(rng, CORPUS)),
    "codes": Reader(read_codes, lambda rng: mutated(rng, CODES, (b"#version: 0.1", b"</w>"))),
    "n-best lists": Reader(read_lists, lambda rng: mutated(rng, LISTS, (b" ||| ", b"= "))),
    "symbols": Reader(read_symbols, lambda rng: mutated(rng, SYMBOLS)),
    "rated words": Reader(lambda path: [read_pairs(path)] and None, lambda rng: mutated(
        rng, [b"a b 3.5 1 2\nc\td\t0\n", b"x y 1e3\n"])),
}
