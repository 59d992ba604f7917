"""The log is JSON that any reader takes."""

import json
import math
import re
from pathlib import Path

import pytest

from nmt.training.log import Log


def no_constant(name):
    raise AssertionError(f"{name} is not JSON")


def test_numbers_that_json_does_not_have_are_null(tmp_path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.write("epoch", perplexity=math.inf, scores={"bleu": math.nan, "chrf": 3.5})
    record = json.loads((tmp_path / "log.jsonl").read_text(), parse_constant=no_constant)
    assert record == {"event": "epoch", "perplexity": None, "scores": {"bleu": None, "chrf": 3.5}}


ROOT = Path(__file__).resolve().parents[3]
LOGS = sorted(ROOT.glob("tests/golden_runs/runs/*/log.jsonl"))  # of real runs, of every kind
SCHEMA = json.loads((ROOT / "docs/log.schema.json").read_text("utf-8"))


def validator():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema (extra `test`)")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


def test_real_logs_are_of_the_schema() -> None:
    check, events = validator(), set()
    for path in LOGS:
        for record in map(json.loads, path.read_text("utf-8").splitlines()):
            check.validate(record)
            events.add(record["event"])
    assert events == {"update", "epoch", "evaluation", "note"}


def test_a_line_about_less_precise_products_is_of_the_schema(tmp_path) -> None:
    """What `Reports.precision` writes, which no run on a CPU has."""
    assert not validator().is_valid({"event": "gemm", "step": 0, "epoch": 1})
    validator().validate({"event": "gemm", "step": 0, "epoch": 1, "precision": "tf32",
                          "loss_error": 1e-4, "gradient_error": 1e-3, "largest_error": 2e-3,
                          "largest_at": "encoder.0.W"})


@pytest.mark.parametrize("wrong", [
    {"event": "update"}, {"step": -1}, {"epoch": 0}, {"loss": "1"}, {"unknown": 1},
    {"event": "start"}, {"tasks": {}},
])
def test_another_line_is_not_of_the_schema(wrong) -> None:
    record = next(record for record in map(json.loads, LOGS[0].read_text("utf-8").splitlines())
                  if record["event"] == "epoch")
    assert validator().is_valid(record) and not validator().is_valid(record | wrong)


def test_the_page_names_every_event_and_its_keys() -> None:
    page = (ROOT / "docs/exchange.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", page, re.MULTILINE))
    for event in SCHEMA["oneOf"]:
        name = event["properties"]["event"]["const"]
        required = {*event["required"]} - {"event", "step", "epoch"}
        if name != "gemm":
            assert required <= {*re.findall(r"`(\w+)`", rows[name])}, name


def test_the_page_reads_a_log_with_pandas(monkeypatch) -> None:
    pytest.importorskip("pandas", reason="pandas (extra `log`)")
    pytest.importorskip("matplotlib")
    path = ROOT / "tests/golden_runs/runs/luong/log.jsonl"
    page = (ROOT / "docs/exchange.md").read_text("utf-8")
    code = re.search(r"    import pandas\n.*?\n\n(?!    )", page, re.DOTALL)[0]
    scope: dict = {}
    exec(re.sub("(?m)^    ", "", code).replace("runs/demo/log.jsonl", str(path)), scope)
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert scope["updates"].loss.tolist() == pytest.approx([  # its parser may be a bit off
        record["loss"] for record in records if record["event"] == "update"])
    _, validation = scope["axes"].get_lines()
    assert validation.get_ydata().tolist() == pytest.approx([
        record["scores"]["perplexity"] for record in records if record["event"] == "epoch"])
