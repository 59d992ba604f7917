"""Inputs that nobody would write: changed valid inputs, and inputs made of random pieces.

Everything depends only on the generator that is passed in, so that an input can be made again from
its number.
"""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

LONGEST = 1 << 14  # bytes of an input, but for those that repeat on purpose
DIGITS = (b"0", b"-1", b"1", b"2147483648", b"9223372036854775808", b"1e308", b"1e999", b"9" * 4500,
          b"0x10", b"1_000", b"inf", b"nan", b"-0", b"1" + b"0" * 30, "٣".encode(), b"1e-320")
PIECES = (
    *DIGITS, b"", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\0", b"\x0c", b"\x1b[31m", b"\xff",
    b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xc2\x85",
    "漢字".encode(), "e\u0301".encode(), b"<unk>", b"</s>", b"<unk_1>", b"<p_-3>", b"<unkpos_null>",
    b"{", b"}", b"[", b"]", b"\"", b"'", b":", b": ", b",", b"-", b"- ", b"#", b"&a ", b"*a", b"!!",
    b"null", b"true", b"~", b"<<", b"|", b">", b"%", b"@", b"`", b"\\", b"|||", b"?", b"p", b"S",
)
ODD: tuple[Any, ...] = (None, True, False, 0, -1, 1, 3, 1.5, -0.0, 1e308, float("nan"),
                        float("inf"), 2**31, 2**63, 10**40, "", "x", "a\0b", "\x1b[2J", "\ud800",
                        "9" * 4500, [], {}, [1], [[]], {"a": 1}, {"": None}, [None] * 9)


def mutated(rng: Random, seeds: list[bytes], pieces: tuple[bytes, ...] = ()) -> bytes:
    """A valid input after one to six changes; one time in ten, a sequence of pieces."""
    pieces = (*PIECES, *pieces)
    if rng.random() < 0.1:
        return b"".join(rng.choices(pieces, k=rng.randrange(1, 40)))
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        CHANGES[rng.randrange(len(CHANGES))](rng, data, seeds, pieces)
    return bytes(data[:LONGEST])


def _place(rng: Random, data: bytearray) -> int:
    return rng.randrange(len(data) + 1)


def _flip(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _insert(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    at = _place(rng, data)
    data[at:at] = rng.choice(pieces)


def _delete(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    at = _place(rng, data)
    del data[at : at + rng.choice((1, 2, 5, 50))]


def _repeat(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    at = _place(rng, data)
    data[at:at] = data[at : at + rng.randrange(1, 30)] * rng.choice((1, 2, 100))


def _truncate(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    del data[_place(rng, data) :]


def _splice(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    other = rng.choice(seeds)
    at = rng.randrange(len(other) + 1)
    data[_place(rng, data) :] = other[at : at + 200]


def _lines(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    lines = bytes(data).split(b"\n")
    rng.shuffle(lines)
    data[:] = b"\n".join(lines)


def _word(rng: Random, data: bytearray, seeds: Any, pieces: Any) -> None:
    """The text with a word replaced by another piece."""
    words = bytes(data).split(b" ")
    words[rng.randrange(len(words))] = rng.choice(pieces)
    data[:] = b" ".join(words)


CHANGES = (_flip, _set, _insert, _insert, _delete, _repeat, _truncate, _splice, _lines, _word)


# --- JSON -----------------------------------------------------------------------------------------


def odd_json(rng: Random, document: Any) -> str:
    """A document as text, with one to three changed places."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.randrange(1, 4)):
        document = _odd(rng, document)
    return json.dumps(document)


def _odd(rng: Random, value: Any) -> Any:
    if not value or not isinstance(value, dict | list) or rng.random() < 0.1:
        return copy.deepcopy(rng.choice(ODD))  # what is changed next is this input's alone
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    what = rng.random()
    if what < 0.1:
        del value[key]
    elif what < 0.15 and isinstance(value, dict):
        value[rng.choice(("", "x", "model", "\x1b"))] = value.pop(key)
    elif what < 0.2:
        value[key] = [value[key]] * rng.randrange(4)
    else:
        value[key] = _odd(rng, value[key])
    return value
