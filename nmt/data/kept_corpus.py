"""Training pairs that a directory keeps for the next start (`data.cache`).

    corpus.facts    a digest of the next line, which is JSON: what the pairs were made of, digests
                    of the other files, the pairs drawn for validation
    corpus.txt      the pairs as words with spaces between, a source and its target in turn
    corpus.index    (2N + 1,) int64 and (2N,) int32, the line ends and the words of these lines
    source.counts   how often each word of the sources occurs, as JSON; target.counts likewise

The pairs are read again if a training file has another size or time of change, if the recipe makes
other pairs of it, or if one of these files is damaged.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from nmt.console.notes import note
from nmt.data.corpus import PreparedPairs
from nmt.data.stored import StoredPairs, StoredSentences
from nmt.files import Part, make_directory, write_file, write_text

FORMAT = 1  # another number for other files, or for other tokens of the same text
FACTS, TEXT, INDEX = "corpus.facts", "corpus.txt", "corpus.index"
COUNTS = ("source.counts", "target.counts")
MANY = 1_000_000  # pairs from which on a note names `data.cache`
# The keys of a recipe's data section on which the pairs depend, beside the files.
DECIDING = ("corpus", "tokenise", "source_language", "second_source_language", "target_language",
            "transliterate", "target_token", "train_size", "max_length", "cut_long")
DRAWING = ("dev_size", "seed")  # the same where pairs are drawn for validation


@dataclass(frozen=True)
class ReadPairs:
    """The pairs of training files: those to train on, and those drawn for validation."""

    train: PreparedPairs
    places: Sequence[int]  # the numbers, from 0, of the lines drawn for validation
    drawn: Sequence[Sequence[str]]  # these lines: source and target
    repeated: int  # lines that repeat a source, if pairs were drawn


def kept(data: Any, paths: Sequence[Path], read: Callable[[], ReadPairs]) -> ReadPairs:
    """The pairs that `data.cache` keeps of the training files, or else those of `read`, which are
    then kept.

    data: the recipe's data section. paths: the training files. Raises UserError as `read` does, and
    if the directory cannot be written.
    """
    if not data.cache or not all(path.is_file() for path in paths):
        pairs = read()
        if len(pairs.train.pairs) >= MANY:
            note("data.cache", f"{len(pairs.train.pairs)} training pairs: --data.cache DIR keeps "
                               "them tokenised for the next start")
        return pairs
    directory, made_of = Path(data.cache), _made_of(data, paths)
    loaded = _load(directory, made_of)
    if loaded is not None:
        return loaded
    pairs = read()
    _save(directory, made_of, pairs)
    return pairs


def _made_of(data: Any, paths: Sequence[Path]) -> dict[str, Any]:
    """What decides the pairs, as JSON values: the files, and keys of the recipe."""
    keys = DECIDING if data.dev_source else (*DECIDING, *DRAWING)
    files = {str(path.resolve()): [path.stat().st_size, path.stat().st_mtime_ns] for path in paths}
    return {"format": FORMAT, **files, **{key: getattr(data, key) for key in keys}}


def _load(directory: Path, made_of: dict[str, Any]) -> ReadPairs | None:
    """The pairs of a directory; None, with a note, if they were made of other files or values, or
    if a file is damaged."""
    if not (directory / FACTS).exists():
        return None
    facts = _facts_in(directory)
    damaged = [name for name, digest in facts["digests"].items()
               if _digest_of(directory / name) != digest]
    changes = [key for key in {**facts["made_of"], **made_of}
               if facts["made_of"].get(key) != made_of.get(key)]
    if damaged or changes:
        reason = f"{damaged[0]} is damaged" if damaged else f"{changes[0]} has changed"
        note("data.cache", f"{directory}: {reason}; the training text is read again")
        return None
    ends, lengths = array("q"), array("i")
    with open(directory / INDEX, "rb") as file:
        ends.fromfile(file, facts["sentences"] + 1)
        lengths.fromfile(file, facts["sentences"])
    sentences = StoredSentences.opened(directory / TEXT, ends, lengths, facts["fingerprint"])
    pairs = StoredPairs(sentences=sentences)
    pairs.counts = [(directory / name).read_bytes() for name in COUNTS]
    return ReadPairs(PreparedPairs(pairs, facts["empty"], facts["too_long"]), facts["places"],
                     facts["drawn"], facts["repeated"])


def _facts_in(directory: Path) -> dict[str, Any]:
    """The facts of a directory. If their file is damaged, the facts say only that its digest is
    wrong."""
    digest, _, facts = (directory / FACTS).read_bytes().partition(b"\n")
    if sha256(facts).hexdigest().encode() != digest:
        return {"made_of": {}, "digests": {FACTS: ""}}
    return json.loads(facts)


def _digest_of(path: Path) -> str:
    """A file's digest; "" if it cannot be read."""
    digest = sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def _save(directory: Path, made_of: dict[str, Any], read: ReadPairs) -> None:
    """Write the files; the facts come last, because their digests show an interrupted write."""
    pairs = read.train.pairs
    assert isinstance(pairs, StoredPairs)
    make_directory(directory)
    sentences, digests = pairs.sentences, {}
    digests[TEXT] = _write(directory / TEXT, sentences.content())
    digests[INDEX] = _write(directory / INDEX, sentences.offsets())
    pairs.counts = [json.dumps(side.counts()).encode() for side in pairs.sides]
    for name, counts in zip(COUNTS, pairs.counts, strict=True):
        digests[name] = _write(directory / name, [counts])
    facts = json.dumps({
        "made_of": made_of, "digests": digests, "sentences": len(sentences),
        "fingerprint": sentences.texts().fingerprint, "empty": read.train.empty,
        "too_long": read.train.too_long, "places": read.places, "drawn": read.drawn,
        "repeated": read.repeated})
    write_text(directory / FACTS, f"{sha256(facts.encode()).hexdigest()}\n{facts}")


def _write(path: Path, parts: Iterable[Part]) -> str:
    """Write a file and return its digest."""
    digest = sha256()

    def digested() -> Iterator[Part]:
        for piece in parts:
            digest.update(piece)
            yield piece

    write_file(path, digested())
    return digest.hexdigest()
