"""The log is JSON that any reader takes."""

import json
import math

from nmt.training.log import Log


def no_constant(name):
    raise AssertionError(f"{name} is not JSON")


def test_numbers_that_json_does_not_have_are_null(tmp_path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.write("epoch", perplexity=math.inf, scores={"bleu": math.nan, "chrf": 3.5})
    record = json.loads((tmp_path / "log.jsonl").read_text(), parse_constant=no_constant)
    assert record == {"event": "epoch", "perplexity": None, "scores": {"bleu": None, "chrf": 3.5}}
