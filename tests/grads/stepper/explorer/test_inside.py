"""A cell drawn from inside: what its lines lead to, what flows on them, at every width."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest
from explored import data, values_of

from backend.errors import UserError
from grads.stepper.explorer.data import explore
from grads.stepper.explorer.drawings import DRAWINGS, svg

SIZES = [{"width": 1400, "height": 900}, {"width": 768, "height": 1024},
         {"width": 390, "height": 844}]
LSTM = {"c_prev": ("c = f * c_prev + i * h_hat", "dc_prev = f * dc"),
        "f": ("i, f, o, h_hat = np.split(u, 4)", "df = c_prev * dc"),
        "c": ("c = f * c_prev + i * h_hat", "dc = dc + tanh_prime(c) * o * dh"),
        "h_hat": ("i, f, o, h_hat = np.split(u, 4)", "dh_hat = i * dc"),
        "h": ("h = o * np.tanh(c)", "do = np.tanh(c) * dh")}
FLOW = "#inside .flow[data-variable='{}']"


def runs(name: str, drawing: str) -> list[dict[str, Any]]:
    """The runs of a function that a page draws."""
    return [run for run in data(name)["inside"]["runs"] if run["drawing"] == drawing]


# --- what the page gets ---------------------------------------------------------------------------


def test_each_line_leads_to_where_its_variable_is_made() -> None:
    steps = data("lstm")["steps"]
    for t, run in enumerate(runs("lstm", "lstm"), start=1):
        for variable, texts in LSTM.items():
            _, forward, _, backward = run["flows"][variable]
            assert (steps[forward]["text"], steps[backward]["text"]) == texts
            assert steps[forward]["loops"] == steps[backward]["loops"] == [["t", t]]


@pytest.mark.parametrize(("name", "drawing", "count"), [
    ("rnn", "rnn", 4), ("lstm", "lstm", 4), ("gru", "gru", 1), ("gru-context", "gru_context", 1),
    ("gru-after", "gru_after", 1), ("attention", "attend", 5), ("rnnsearch", "context", 5),
    ("multihead", "head_forward", 2), ("transformer", "layer pre 2", 1),
    ("transformer", "layer pre 3", 1), ("transformer-postnorm", "layer post 3", 1)])
def test_every_variable_of_a_drawing_flows_forward_and_back(
        name: str, drawing: str, count: int) -> None:
    """Its gradient has its shape, and belongs to it by the verification, if it has one."""
    d = data(name)
    root = dict(enumerate(tensor["same_as"] for tensor in d["tensors"]))
    of = {check["target"]: check["of"] for check in d["verifications"] if check["of"] is not None}

    def original(tensor: int) -> int:
        return tensor if root[tensor] is None else original(root[tensor])

    drawn_runs = runs(name, drawing)
    assert len(drawn_runs) == count
    for run in drawn_runs:
        assert list(run["flows"]) == list(dict.fromkeys(
            flow.variable for flow in DRAWINGS[drawing].flows))
        for variable, (value, forward, gradient, backward) in run["flows"].items():
            assert None not in (value, forward, gradient, backward), variable
            assert d["steps"][forward]["pass"] == "forward"
            assert d["steps"][backward]["pass"] == "backward"
            shapes = [d["tensors"][tensor]["shape"] for tensor in (value, gradient)]
            assert shapes[0] == shapes[1], variable
            if gradient in of and not variable.startswith("z."):
                assert original(of[gradient]) == original(value), variable


def test_a_step_says_what_it_writes_and_reads() -> None:
    steps = data("lstm")["steps"]
    marks = {step["text"]: step["inside"][1:] for step in steps if "inside" in step}
    assert marks["c = f * c_prev + i * h_hat"] == [["c"], ["c_prev", "f", "h_hat", "i"]]
    assert marks["df = c_prev * dc"] == [["f"], ["c", "c_prev"]]
    functions = {source["id"]: source["function"] for source in data("lstm")["sources"]}
    without = {functions[step["source"]] for step in steps if "inside" not in step}
    assert not without & {"lstm", "lstm_grad"}


def test_drawings_as_files(tmp_path: Path) -> None:
    assert explore("attention", tmp_path / "a.svg", seed=1) == tmp_path / "a.svg"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-attend.svg", "a.svg"]
    text = (tmp_path / "a-attend.svg").read_text("utf-8")
    assert minidom.parseString(text).documentElement.tagName == "svg"
    assert "var(" not in text and "softmax" in text
    with pytest.raises(UserError, match="layer-norm has no drawing: expected one that runs attend"):
        explore("layer-norm", tmp_path / "n.svg")


@pytest.mark.parametrize("name", DRAWINGS)
def test_names_stand_inside_of_the_drawing(name: str) -> None:
    drawing = DRAWINGS[name]
    labels = [flow.label for flow in drawing.flows if flow.label]
    assert len(set(labels)) == len(labels)
    assert all(0 <= x <= 330 and 12 <= y <= drawing.height - 12 for x, y in labels)
    assert svg(drawing).count('class="name"') == len(labels)


# --- in a browser ---------------------------------------------------------------------------------


def shown(window: Any, variable: str) -> str:
    """The number below a name, with a plain minus."""
    number = window.page.text_content(f"{FLOW.format(variable)} .number")
    return str(number).replace("−", "-")


AT = "(step) => document.querySelector('#where b').textContent === `Step ${step}`"


def click(window: Any, variable: str) -> None:
    """Click on a line, where it begins."""
    path = window.page.locator(f"{FLOW.format(variable)} .wide").first
    x, y = path.evaluate("""(line) => {
        line.scrollIntoView({ block: "center" });  // clear of a bar at the window's edge
        const at = line.getPointAtLength(line.getTotalLength() / 2);
        const on = new DOMPoint(at.x, at.y).matrixTransform(line.getScreenCTM());
        return [on.x, on.y];
    }""")
    window.page.mouse.click(x, y)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_a_click_on_a_line_leads_to_its_code_and_number(
        size: dict[str, int], opened: Any, page_for: Any) -> None:
    d, _ = page_for("lstm")
    for backward in (False, True):
        start = next(k for k, step in enumerate(d["steps"])
                     if step["text"] == ("do = np.tanh(c) * dh" if backward else
                                         "h = o * np.tanh(c)"))
        window = opened("lstm", f"#step={start + 1}", viewport=size)
        run = d["inside"]["runs"][d["steps"][start]["inside"][0]]
        for variable in ("f", "c_prev", "c", "f"):
            tensor = run["flows"][variable][2 * backward]
            click(window, variable)
            step = run["flows"][variable][1 + 2 * backward]
            window.page.wait_for_function(AT, arg=step + 1)
            line = window.page.text_content(".line.current .code")
            assert line.strip() == d["steps"][step]["text"]
            assert window.page.is_visible("#equation .typeset")
            entry = window.page.get_attribute(".side.writes [aria-pressed]", "data-entry")
            target = d["steps"][step]["targets"][0]
            assert entry is not None and d["tensors"][target]["shape"] == [3, 1]
            number = values_of(d, tensor)[int(entry), 0]
            assert float(shown(window, variable)) == pytest.approx(number, rel=0.01, abs=1e-4)
    assert window.complaints == []


def test_the_line_of_a_step_is_lit_and_gradients_are_as_wide_as_their_norms(
        opened: Any, page_for: Any) -> None:
    d, _ = page_for("lstm")
    step = max(k for k, line in enumerate(d["steps"]) if line["text"] == "dh_prev = T_h.T @ da")
    window = opened("lstm", f"#step={step + 1}")
    lit = window.page.eval_on_selector_all(
        "#inside .flow.now", "all => all.map(x => x.dataset.variable)")
    read = window.page.eval_on_selector_all(
        "#inside .flow.read", "all => all.map(x => x.dataset.variable)")
    assert (lit, read) == (["h_prev"], ["a"])
    flows = d["inside"]["runs"][d["steps"][step]["inside"][0]]["flows"]
    norms = {name: np.linalg.norm(values_of(d, flow[2])) for name, flow in flows.items()}
    widths = dict(window.page.eval_on_selector_all(
        "#inside .flow.backward",
        "all => all.map(x => [x.dataset.variable, x.style.getPropertyValue('--wide')])"))
    assert set(widths) == set(flows)
    for name, norm in norms.items():
        wide = 1 + 6 * norm / max(norms.values())
        assert float(widths[name].removesuffix("px")) == pytest.approx(wide, rel=1e-3)


def test_lines_by_the_keyboard_alone(opened: Any, page_for: Any) -> None:
    d, _ = page_for("lstm")
    step = next(k for k, line in enumerate(d["steps"]) if line["text"] == "h = o * np.tanh(c)")
    window = opened("lstm", f"#step={step + 1}")
    window.page.evaluate("document.querySelector('#algorithm .lines').focus()")
    for _ in range(60):
        window.page.keyboard.press("Tab")
        if window.page.evaluate("document.activeElement.dataset?.variable") == "o":
            break
    assert "step" in window.page.evaluate("document.activeElement.getAttribute('aria-label')")
    window.page.keyboard.press("Enter")
    gates = d["inside"]["runs"][d["steps"][step]["inside"][0]]["flows"]["o"][1]
    window.page.wait_for_function(AT, arg=gates + 1)
    assert d["steps"][gates]["text"] == "i, f, o, h_hat = np.split(u, 4)"
    assert window.page.evaluate("document.activeElement.dataset.variable") == "o"


def test_a_bug_marks_the_lines_that_it_makes_wrong(opened: Any, page_for: Any) -> None:
    d, _ = page_for("lstm")
    last = max(k for k, line in enumerate(d["steps"]) if line["text"] == "dh_prev = T_h.T @ da")
    window = opened("lstm", f"#step={last + 1}&break=sign")
    assert window.page.query_selector("#inside .flow.wrong[data-variable='h_prev']")
    window.page.select_option("#break", "")
    assert not window.page.query_selector("#inside .flow.wrong")
