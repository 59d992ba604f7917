"""The explorer's page in a browser: it loads nothing, and shows the numbers of the trace."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.grads.stepper.explorer.conftest import PAGES

NARROW = {"width": 390, "height": 844}
EXCESS = """(steps) => steps.map((step) => {
    const slider = document.getElementById("slider");
    slider.value = step;
    slider.dispatchEvent(new Event("input"));
    const parts = [document.documentElement, ...document.querySelectorAll(".bench > *")];
    return [step, Math.max(...parts.map((part) => part.scrollWidth - part.clientWidth))];
})"""  # by how much the page, or a column of it, is wider than its space


TO = """(step) => {
    const slider = document.getElementById("slider");
    slider.value = step;
    slider.dispatchEvent(new Event("input"));
    document.body.getBoundingClientRect();
}"""
TABLE = """() => {
    const table = document.createElement("table");
    for (let row = 0; row < 40; row += 1) {
        const cells = table.insertRow();
        for (let column = 0; column < 25; column += 1) {
            cells.insertCell().textContent = (row / (column + 1)).toFixed(3);
        }
    }
    document.body.append(table);
    document.body.getBoundingClientRect();
    table.remove();
    document.body.getBoundingClientRect();
}"""


def number(title: str) -> float:
    """The number of a cell's title: "dc[1] = −2.5 × 10⁻³; right would be ..."."""
    text = title.partition(" = ")[2].partition(";")[0]
    digits = text.translate(str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789"))
    return float(re.sub(r"\s×\s10", "e", digits))


def values(data: dict[str, Any], tensor: int, variant: dict[str, Any] | None = None) -> np.ndarray:
    """A tensor's numbers by the data: its own, a variant's, or those it shares."""
    changed = variant and variant["values"].get(tensor)
    if changed:
        return np.array(changed)
    shared = data["tensors"][tensor].get("same_as")
    recorded = data["tensors"][tensor]["value"]
    return np.array(recorded, float) if shared is None else values(data, shared, variant)


def numeric(data: dict[str, Any], step: int) -> list[int]:
    """The tensors that a step writes and that hold numbers."""
    return [tensor_id for tensor_id in data["steps"][step]["targets"]
            if data["tensors"][tensor_id]["shape"] is not None]


@pytest.mark.parametrize("name", ["lstm", "attention"])
def test_loads_nothing_and_complains_of_nothing(name: str, opened: Any, page_for: Any) -> None:
    window = opened(name, fresh=True)
    for key in ("End", "Shift+ArrowLeft", "ArrowLeft", "Home", "Shift+ArrowRight"):
        window.page.keyboard.press(key)
    window.page.select_option("#break", index=1)
    assert window.requests == [page_for(name)[1].as_uri()]
    assert window.complaints == []


# Other pages show each of their lines, too (of `attention` that with trained weights)
REPEATED = ("attention", "unfed", "gru", "gru-context", "general", "additive")


def ends(data: dict[str, Any]) -> list[int]:
    """The numbers, from 1, of the first and the last step of each line."""
    lines = [(step["source"], step["line"]) for step in data["steps"]]
    numbers = range(1, len(lines) + 1)
    return sorted({*dict(zip(lines, numbers, strict=True)).values(),
                   *dict(zip(lines[::-1], numbers[::-1], strict=True)).values()})


@pytest.mark.parametrize("name", [name for name in PAGES if name not in REPEATED])
def test_every_line_of_every_page(name: str, opened: Any, page_for: Any) -> None:
    """Where it runs first and last; on the page of an RNN, every step. The numbers of the trace;
    also with numbers put into its line, which the page shows only if they give the same. Nothing
    that was never there, no directory, no page without end, no complaint."""
    data, path = page_for(name)
    window = opened(name, "#all=1&step=1", fresh=True, viewport={"width": 1400, "height": 900})
    steps = list(range(1, len(data["steps"]) + 1)) if name == "rnn" else ends(data)
    walked = window.walk(steps)
    assert len(walked) == len(steps) and window.complaints == []
    assert len(path.read_bytes()) < 1_000_000
    assert [shown["where"] for shown in walked if not shown["fits"] or shown["height"] > 3400] == []
    assert [shown["odd"] for shown in walked if shown["odd"]] == []
    for number_, shown in zip(steps, walked, strict=True):
        entry = data["steps"][number_ - 1]
        assert shown["where"].startswith(f"Step {number_} of {len(data['steps'])}")
        assert entry["pass"] in shown["where"]
        assert [int(tensor) for tensor, _ in shown["written"]] == numeric(data, number_ - 1)
        for tensor, titles in shown["written"]:
            np.testing.assert_allclose([number(title) for title in titles],
                                       values(data, int(tensor)), rtol=1e-9, atol=0)
        computed = (entry.get("expansions") or [None])[0]
        shapes = [data["tensors"][tensor_id]["shape"] for tensor_id in entry["targets"]]
        complete = not any("full_shape" in data["tensors"][read["tensor"]]
                           for read in entry["reads"])
        if computed and complete and len(shapes) == 1 and shapes[0] and 0 not in shapes[0]:
            assert shown["numbers"], entry["text"]


def processor(session: Any) -> float:
    """Milliseconds that a window's thread has worked on scripts, styles and layout."""
    metrics = {metric["name"]: metric["value"]
               for metric in session.send("Performance.getMetrics")["metrics"]}
    parts = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    return 1000 * sum(float(metrics[metric]) for metric in parts)


def slow_steps(page: Any, step_to: str, steps: list[int], tables: float) -> list[int]:
    """The steps that take more of the processor's time than so many tables of 1,000 cells, where a
    table takes it 10 ms: measured beside each step, since machines differ and others load them.
    The best of up to ten.

    Arguments: step_to, JavaScript that goes to a step; before each it goes to the step before.
    """
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def taken(script: str, step: int) -> float:
        before = processor(session)
        page.evaluate(script, step)
        return processor(session) - before

    def slow(step: int) -> bool:
        page.evaluate(step_to, step - 1)
        return taken(step_to, step) > tables * taken(TABLE, step)

    too_slow = [step for step in steps if all(slow(step) for _ in range(10))]
    session.detach()
    return too_slow


@pytest.mark.alone
@pytest.mark.parametrize(("name", "tables"), [
    ("lstm", 3), ("attention", 3), ("transformer", 5), ("trained", 5), ("own", 5)])
def test_a_step_takes_less_than_30_or_50_ms(
        name: str, tables: float, opened: Any, page_for: Any) -> None:
    """40 steps from the first to the last."""
    steps = np.linspace(2, len(page_for(name)[0]["steps"]), 40).astype(int).tolist()
    assert slow_steps(opened(name, "#all=1").page, TO, steps, tables) == []


def test_numbers_put_into_a_product(opened: Any, page_for: Any) -> None:
    data, _ = page_for("lstm")
    step = next(k for k, line in enumerate(data["steps"]) if line["text"] == "dh = W_hy.T @ ds")
    window = opened("lstm", f"#step={step + 1}")
    window.page.click('.side.writes [data-entry="1"]')
    labels = window.page.eval_on_selector_all(
        ".numbers .label", "all => all.map(x => x.textContent)")
    words = len(data["vocabularies"]["output"]["words"])
    assert labels[:3] == ["dh[1]", "W_hy[0, 1]", "ds[0]"] and len(labels) == 1 + 2 * words
    shown = window.page.eval_on_selector_all(
        ".numbers .number",
        "all => all.slice(1).map(x => x.title.split(' = ')[1] ?? x.title)")
    factors = [number(f"x = {text.split(':')[0]}") for text in shown]
    total = sum(a * b for a, b in zip(factors[::2], factors[1::2], strict=True))
    [tensor] = data["steps"][step]["targets"]
    assert total == pytest.approx(values(data, tensor)[1], rel=1e-6)


def test_sum_over_time_has_one_bar_for_each_step(opened: Any, page_for: Any) -> None:
    data, _ = page_for("lstm")
    window = opened("lstm", f"#step={len(data['steps'])}")
    window.page.click(".side.writes figure:nth-of-type(2) .cell")  # gradients['T']
    bars = window.page.query_selector_all("#equation .bar.term")
    assert len(bars) == len(data["network"]["columns"]) == 4


def test_sums_say_what_they_are_over(opened: Any, page_for: Any) -> None:
    """In a Transformer a sum over heads is none over time; its labels stay inside of its column."""
    data, _ = page_for("transformer")
    target = next(total["target"] for total in data["sums"]
                  if {name for name, _ in total["terms"][0]["loops"]} == {"l", "k", "i"})
    step = next(k for k, line in enumerate(data["steps"]) if target in line["targets"])
    page = opened("transformer", f"#all=1&step={step + 1}").page
    assert "Sum over heads" in page.eval_on_selector_all(
        "#equation h3", "all => all.map((one) => one.textContent)")
    assert page.text_content("#equation .bars text") == "i = 1"
    left = "(all) => Math.min(...all.map((one) => one.getBoundingClientRect().left))"
    assert page.eval_on_selector_all("#equation .bars text", left) >= page.eval_on_selector_all(
        "#equation", left)
    page = opened("lstm", f"#step={len(page_for('lstm')[0]['steps'])}").page
    titles = page.eval_on_selector_all("#equation h3", "all => all.map((one) => one.textContent)")
    assert "Sum over time" in titles


def test_what_a_line_renames_is_printed_once(opened: Any, page_for: Any) -> None:
    data, _ = page_for("gru")
    assert data["steps"][0]["text"].endswith("= unit")
    page = opened("gru", "#all=1&step=1").page
    assert page.query_selector(".side.writes") and not page.query_selector(".side.kept")
    assert "W is unit.W" in page.inner_text(".side.writes")


def test_back_goes_one_step_back(opened: Any) -> None:
    window = opened("lstm", "#all=1&step=3", fresh=True)
    for key, step in (("ArrowRight", 4), ("ArrowRight", 5)):
        window.page.keyboard.press(key)
        assert window.address() == f"#step={step}&all=1"
    for step in (4, 3):
        window.page.go_back()
        window.page.wait_for_function(
            "step => document.querySelector('#where b').textContent === `Step ${step}`", arg=step)


def test_without_javascript_the_lines_are_there(browser: Any, page_for: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_for("lstm")[1].as_uri())
    assert "c = f * c_prev + i * h_hat" in page.inner_text("body")
    assert not page.is_visible(".transport")
    context.close()


def test_paper_has_no_controls(opened: Any) -> None:
    page = opened("lstm", "#step=20", fresh=True).page
    page.emulate_media(media="print")
    assert page.is_visible("#algorithm .line.current") and page.is_visible("#equation .typeset")
    assert [name for name in ("button.more", ".buttons", "#slider", "#jump", "#speed", "#all",
                              "#break", "#guide") if page.is_visible(name)] == []


@pytest.mark.parametrize("size", [(1400, 900), (768, 1024), (390, 844)])
@pytest.mark.parametrize("name", ["lstm", "gru", "trained", "transformer"])
def test_the_first_screen_shows_line_equation_and_numbers(
        name: str, size: tuple[int, int], opened: Any) -> None:
    window = opened(name, viewport=dict(zip(("width", "height"), size, strict=True)))
    bar = window.page.evaluate(
        "(() => { const bar = document.querySelector('.transport').getBoundingClientRect();"
        " return bar.top > 100 && bar.bottom >= innerHeight ? bar.top : innerHeight; })()")
    top = {place: window.page.evaluate(
        "(all) => Math.min(...[...document.querySelectorAll(all)]"
        ".map((one) => one.getBoundingClientRect()).filter((one) => one.height)"
        ".map((one) => one.bottom))", place)
        for place in (".line.current, .line-here", ".typeset",
                      ".numbers .value, .writes .cell, .equation h3")}
    assert max(top.values()) <= bar, top
    if size[0] == 1400:
        code = window.page.evaluate(
            "document.querySelector('#algorithm .lines').getBoundingClientRect()")
        assert code["top"] < 0.5 * size[1] and code["width"] > 500


def test_a_backward_line_lights_its_forward_partner(opened: Any, page_for: Any) -> None:
    data, _ = page_for("lstm")
    step = next(k for k, line in enumerate(data["steps"]) if line["text"] == "df = c_prev * dc")
    window = opened("lstm", f"#step={step + 1}")
    lit = [window.page.inner_text(f".line.{role} .code").strip() for role in ("current", "partner")]
    assert lit == ["df = c_prev * dc", "c = f * c_prev + i * h_hat"]
    assert window.page.inner_text(".formula .tag") == "(2.43)"
    assert window.page.query_selector(".formula math") is not None  # for those who listen
    kept = window.page.query_selector_all(".side.kept [data-tensor]")
    cached = {str(tensor_id) for tensor_id in data["steps"][step]["cached"]}
    assert cached and cached <= {element.get_attribute("data-tensor") for element in kept}


def test_keys(opened: Any, page_for: Any) -> None:
    data, _ = page_for("lstm")
    window = opened("lstm", "#all=1")
    steps, seen = [], window.page.keyboard
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "Home", "ArrowLeft"):
        seen.press(key)
        steps.append(window.step())
    last = len(data["steps"])
    assert steps == [2, 3, 2, last, last, 1, 1]
    seen.press("Space")
    assert window.page.get_attribute("#play", "aria-label") == "Pause"
    window.page.wait_for_selector("#where b:text-is('Step 2')")
    seen.press("Space")
    assert window.page.get_attribute("#play", "aria-label") == "Play"


def test_up_and_down_go_from_number_to_number(opened: Any) -> None:
    window = opened("lstm", "#step=40")
    window.page.focus(".side.writes .cell")
    window.page.keyboard.press("ArrowDown")
    assert window.page.evaluate("document.activeElement.dataset.entry") == "1"
    window.page.keyboard.press("Enter")
    assert "[1]" in window.page.inner_text("#equation h3")
    assert window.step() == 40


def test_links(opened: Any, page_for: Any) -> None:
    data, _ = page_for("lstm")
    window = opened("lstm", "#step=37&break=sign")
    assert window.step() == 37
    assert "sign" in window.page.input_value("#break")
    window.page.keyboard.press("ArrowRight")
    assert window.address().startswith("#step=38&break=sign")
    window.page.evaluate("location.hash = '#step=5'")
    window.page.wait_for_selector("#where b:text-is('Step 5')")
    assert window.page.input_value("#break") == ""
    for wrong in ("#all=1&step=0", "#all=1&step=-3", "#all=1&step=x", "#all=1&break=nothing"):
        assert opened("lstm", wrong).step() == 1
    assert opened("lstm", "#step=99999").step() == len(data["steps"])


def test_break_it_changes_values(opened: Any, page_for: Any) -> None:
    data, _ = page_for("lstm")
    variant = next(candidate for candidate in data["variants"]
                   if candidate["id"].startswith("sign"))
    first = next(number for number, step in enumerate(data["steps"])
                 if variant["wrong"][0] in step["targets"])
    window = opened("lstm", f"#step={first + 1}")
    right = window.written()
    assert not window.page.query_selector(".tensor.wrong")
    window.page.select_option("#break", variant["id"])
    broken = window.written()
    assert window.page.query_selector(".side.writes .tensor.wrong .flag")
    for tensor, titles in broken.items():
        shown = [number(title) for title in titles]
        np.testing.assert_allclose(shown, values(data, tensor, variant), rtol=1e-4)
        assert shown != [number(title) for title in right[tensor]]
        assert all("right would be" in title for title in titles)
    assert window.page.inner_text("#verification .status strong") == "✗ wrong"
    assert f"step {first + 1}" in window.page.inner_text("#breaks")
    assert len(window.page.query_selector_all(".wrong-mark")) > 10
    assert variant["edited"][0]["text"] in window.page.inner_text(".note.changed")
    window.page.keyboard.press("ArrowLeft")
    assert not window.page.query_selector(".side.writes .tensor.wrong")
    window.page.select_option("#break", "")
    window.page.keyboard.press("ArrowRight")
    assert window.written() == right


def test_verification_strip(opened: Any, page_for: Any) -> None:
    data, _ = page_for("lstm")
    verification = next(check for check in data["verifications"] if check["name"] == "ds")
    window = opened("lstm", f"#step={verification['step'] + 1}")
    said = window.page.inner_text("#verification .status")
    assert "✓ verified" in said and "(complex step; central differences agree with it to " in said
    rows = window.page.query_selector_all("#verification tbody tr")
    assert len(rows) == len(values(data, verification["target"]))
    series = window.page.query_selector_all("#verification .series.central")
    assert len(series) == 2  # and its legend
    end = opened("lstm", f"#step={len(data['steps'])}")
    assert end.page.query_selector("#verification .series.tangent") is not None


def test_gradient_flow_draws_every_series(opened: Any, page_for: Any) -> None:
    data, _ = page_for("lstm")
    series = data["flow"]["series"]
    window = opened("lstm")
    assert len(window.page.query_selector_all("#flow .chart .norm")) == len(series)
    bounds = sum(curve["bound"] is not None for curve in series)
    assert len(window.page.query_selector_all("#flow .chart .bound")) == bounds > 0


@pytest.mark.parametrize("name", ["lstm", "attention"])
def test_nothing_is_wider_than_its_space(name: str, opened: Any, page_for: Any) -> None:
    """In a narrow window and a wide one, at the first step of each line."""
    steps = page_for(name)[0]["steps"]
    lines = [[step["text"] for step in steps].index(text) + 1
             for text in dict.fromkeys(step["text"] for step in steps)]
    for address, options in (("", {"viewport": NARROW}), ("#break=sign", {})):
        excesses = opened(name, address, **options).page.evaluate(EXCESS, lines)
        assert {step: excess for step, excess in excesses if excess > 0} == {}


def test_no_motion_for_those_who_ask_for_none(opened: Any) -> None:
    window = opened("lstm", reduced_motion="reduce")
    assert not window.page.is_visible("#play")
    window.page.keyboard.press("Space")
    assert window.page.get_attribute("#play", "aria-label") == "Play"
    duration = "getComputedStyle(document.querySelector('.playhead')).transitionDuration"
    assert window.page.evaluate(duration) == "0s"
    assert opened("lstm").page.evaluate(duration) != "0s"


@pytest.mark.parametrize(("name", "seconds"), [("lstm", 1.0), ("attention", 3.0)])
def test_opens_quickly(name: str, seconds: float, opened: Any) -> None:
    """From the start of navigation until the first step is drawn; the best of three."""
    ready = "performance.getEntriesByName('ready')[0].startTime / 1000"
    assert any(opened(name, fresh=True).page.evaluate(ready) < seconds for _ in range(3))
