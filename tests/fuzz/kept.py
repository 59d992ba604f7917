"""Inputs that once failed, by their reader. `make test` reads each again."""

from __future__ import annotations

KEPT: dict[str, list[bytes]] = {
    "recipe": [
        b"a: &a {x: 1}\n" + b"".join(  # an hour, and all memory
            b"%c: &%c {%s}\n" % (98 + i, 98 + i, b", ".join(
                b"k%d: *%c" % (j, 97 + i) for j in range(9))) for i in range(9)),
        b"a: " + b"[" * 100_000,  # seven seconds
        b"model: {layers: " + b"9" * 4500 + b"}",  # without the line
        b"model: {layers: !!int ''}",  # IndexError
        b"model: {layers: !!timestamp x}",  # AttributeError
        b"model: {layers: !!bool x}",  # KeyError
        b'data: {train_source: "a\\0b", train_target: b, dev_source: c, dev_target: d}',
        b"data: {corpus: reverse}\ntrain: {halve_every: 1.0e-320}\n",  # OverflowError, later
        b"data: {corpus: reverse}\nmodel: {scale: .nan, forget_bias: .inf}\n",
        b"base: " + b"9" * 300,  # OSError, without the line
    ],
    "overrides": [b"--model.layers=" + b"[" * 5000, b"--data.directory=\0", b"--model.=1",
                  b"--parametrize.tied={!!bool a: b}",  # the message was 'a'
                  b"--model.biases=!!timestamp no",  # AttributeError
                  b"--parametrize.tied=!!float : c}"],  # IndexError
    "links": [b"0-" + b"9" * 4500 + b"\n", b"9" * 4500 + b" 1 1\n", b"999999999 1 1\n"],
    "log": [
        b"[" * 100_000, b'{"event": "update", "step": "1"}', b"null", b"\xff\n",
        b'{"event": "epoch", "step": 1, "scores": []}', b'{"event": "x", "step": 1, "loss": NaN}',
        b'{"event": "epoch", "step": 1, "scores": {"perplexity": 0}}',
        b'{"event": "epoch", "step": 2, "target_tokens_per_second": 1000.0, "cpu_seconds": 0.2}',
        b'{"event": "update", "step": 2, "loss": 1' + b"0" * 40 + b"}",  # TypeError, of the figure
    ],
    "dictionary": [b"eins\tone\r \n"],  # a word that cannot be written as it is read
    "symbols": [b"<unk_" + b"9" * 4500 + b"> <p_-" + b"9" * 4500 + b">"],
    "checkpoint": [b"", b"\xff" * 8, (2**40).to_bytes(8, "little")],
}
