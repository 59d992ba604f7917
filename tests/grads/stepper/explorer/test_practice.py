"""What a student may do on a page: change a number, predict, find the bug; by mouse and by
keyboard, in windows of three widths."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.settings import Settings
from grads.stepper.trace import trace
from tests.grads.stepper.explorer.conftest import PAGES
from tests.grads.stepper.explorer.test_page import number, values

WINDOWS = [{"width": 1400, "height": 900}, {"width": 768, "height": 1024},
           {"width": 390, "height": 844}]
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture
def window(request: pytest.FixtureRequest, opened: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page in a phone's window, or in one of the size that the test asks for. What it
    shows in the end fits windows of all widths."""
    windows = []

    def open_page(name: str, address: str = "") -> Any:
        viewport = getattr(request, "param", WINDOWS[-1])
        windows.append(opened(name, address, fresh=True, viewport=viewport))
        return windows[-1]

    yield open_page
    for opened_window in windows:
        assert opened_window.complaints == []
        for size in WINDOWS:
            opened_window.page.set_viewport_size(size)
            assert opened_window.page.evaluate(FITS), size
        opened_window.context.close()


in_windows_of_all_widths = pytest.mark.parametrize(
    "window", WINDOWS, indirect=True, ids=lambda size: str(size["width"]))


def computed(name: str, change: Callable[[dict[str, Any], list[int], list[int]], Any]
             ) -> tuple[float, list[np.ndarray]]:
    """The loss of a page's example, and every number that its backward assigns, after a change of
    parameters or words."""
    settings = {key: value for key, value in PAGES[name].items() if key != "name"}
    run = open_example(PAGES[name]["name"], Settings(**settings, seed=1)).run
    arguments = copy.deepcopy(run.example.arguments)
    change(*arguments)
    example, derivation = replace(run.example, arguments=arguments), run.derivation
    forward = trace(derivation.forward, *arguments, follow=derivation.follow, **example.named)
    backward = trace(derivation.backward, *derivation.given(example, forward.result),
                     follow=derivation.follow)
    return float(run.loss(forward.result)), [
        np.ravel(np.asarray(target.value, float)) for step in backward.steps
        if step.kind == "assign" for target in step.targets if target.shape is not None]


def type_in(page: Any, selector: str, text: str) -> None:
    """Type into a field, and leave it by the keyboard."""
    page.fill(selector, text)
    page.press(selector, "Enter")


def loss_shown(page: Any) -> float:
    """The loss in full."""
    return number(f"loss = {page.get_attribute('#change-loss b', 'title')}")


def backward_shown(window: Any, page: dict[str, Any]) -> list[np.ndarray]:
    """Every number that a step of the backward pass writes, read off the page."""
    window.page.evaluate("document.activeElement.blur()")
    first = next(k for k, step in enumerate(page["steps"]) if step["pass"] == "backward")
    gradients = []
    for step in range(first, len(page["steps"])):
        window.page.evaluate("""(step) => { const slider = document.getElementById("slider");
            slider.value = step; slider.dispatchEvent(new Event("input")); }""", step + 1)
        gradients += [np.array([number(title) for title in titles])
                      for titles in window.written().values()]
    return gradients


# --- change a number ------------------------------------------------------------------------------


def test_a_weight_is_changed_by_a_click_and_typing(window: Any, page_for: Any) -> None:
    """The whole backward pass and the loss are those of the derivation with that weight."""
    page, _ = page_for("rnn")
    step = next(k for k, line in enumerate(page["steps"]) if line["text"] == "a = T @ z + b")
    browser_window = window("rnn", f"#step={step + 1}")
    browser_window.page.keyboard.press("c")
    [T] = [read["tensor"] for read in page["steps"][step]["reads"] if read["written"] == "T"]
    browser_window.page.click(f'[data-tensor="{T}"] [data-entry="3"]')
    assert "T[0, 3]" in browser_window.page.inner_text("#practice-change")
    type_in(browser_window.page, "#change-value", "1.25")
    loss, backward = computed("rnn", lambda p, x, y: p["T"].__setitem__((0, 3), 1.25))
    assert loss_shown(browser_window.page) == pytest.approx(loss, rel=1e-9)
    assert loss != pytest.approx(page["loss"], rel=1e-3)
    assert "it was" in browser_window.page.inner_text("#change-loss")
    shown = backward_shown(browser_window, page)
    assert len(shown) == len(backward) > 20
    for here, expected in zip(shown, backward, strict=True):
        np.testing.assert_allclose(here, expected, rtol=1e-8, atol=1e-15)
    browser_window.page.click("#restore")
    assert loss_shown(browser_window.page) == pytest.approx(page["loss"], rel=1e-8)


@in_windows_of_all_widths
def test_a_word_is_changed(window: Any, page_for: Any) -> None:
    """Where it is read and where it is predicted, in the network too."""
    page, _ = page_for("lstm")
    browser_window = window("lstm")
    browser_window.page.click("#mode-change")
    browser_window.page.select_option("#change-what", label="word 3")
    browser_window.page.select_option("#change-value", label="page")
    word = page["vocabularies"]["input"]["words"].index("page")

    def change(parameters: Any, x: list[int], y: list[int]) -> None:
        x[2] = y[1] = word

    assert loss_shown(browser_window.page) == pytest.approx(computed("lstm", change)[0], rel=1e-9)
    words = browser_window.page.eval_on_selector_all(".network .word",
                                                     "all => all.map(x => x.textContent)")
    assert words.count("page") == 4 and "the" not in words
    assert "we read page page" in browser_window.page.inner_text("#about")
    browser_window.page.click("#mode-change")  # off: as it was
    assert "we read the page" in browser_window.page.inner_text("#about")


@pytest.mark.parametrize(("knob", "value", "change"), [
    ("forget bias", "2", lambda p: p["b"].__setitem__(
        slice(3, 6), p["b"][3:6] + 2 - p["b"][3:6].mean())),
    ("spectral radius", "0.5", lambda p: p["T"].__setitem__(
        (slice(None), slice(2, None)), p["T"][:, 2:] * 0.5 / max(
            np.abs(np.linalg.eigvals(block)).max() for block in np.split(p["T"][:, 2:], 4))))])
def test_knobs_by_keyboard_alone(knob: str, value: str, change: Any, window: Any) -> None:
    browser_window = window("lstm")
    browser_window.page.keyboard.press("c")
    for _ in range(20):
        browser_window.page.keyboard.press("Tab")
        if browser_window.page.evaluate("document.activeElement.id") == "change-what":
            break
    browser_window.page.keyboard.type(knob)
    for _ in range(8):
        browser_window.page.keyboard.press("Tab")
        if browser_window.page.evaluate("document.activeElement.id") == "change-slider":
            break
    before = browser_window.page.input_value("#change-value")
    browser_window.page.keyboard.press("ArrowRight")
    assert float(browser_window.page.input_value("#change-value")) > float(before)
    browser_window.page.keyboard.press("Tab")
    browser_window.page.keyboard.press("Control+a")
    browser_window.page.keyboard.type(value)
    browser_window.page.keyboard.press("Enter")
    loss, _ = computed("lstm", lambda p, x, y: change(p))
    assert loss_shown(browser_window.page) == pytest.approx(loss, rel=1e-9)
    assert knob in browser_window.page.inner_text("#practice-change .names")
    assert len(browser_window.page.query_selector_all("#practice-change .series.was")) >= 2


def test_attention_and_a_single_step_are_computed_anew(window: Any, page_for: Any) -> None:
    browser_window = window("attention", "#step=30")
    browser_window.page.keyboard.press("c")
    browser_window.page.select_option("#change-what", label="attention.W_a")
    type_in(browser_window.page, "#change-value", "-2")
    loss, _ = computed(
        "attention", lambda p, x, y: p["attention.W_a"].__setitem__((0, 0), -2.0))
    assert loss_shown(browser_window.page) == pytest.approx(loss, rel=1e-9)
    gru_window = window("gru")
    gru_window.page.keyboard.press("c")
    before = loss_shown(gru_window.page)
    gru_window.page.select_option("#change-what", label="U_r")
    type_in(gru_window.page, "#change-value", "2")
    assert loss_shown(gru_window.page) != pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "attention"])
def test_gradients_are_verified_anew(name: str, opened: Any, page_for: Any) -> None:
    """Each complete gradient agrees with a central difference of the loss, taken in the page."""
    page, _ = page_for(name)
    browser_window = opened(name, "#all=1", fresh=True, viewport={"width": 1300, "height": 900})
    browser_window.page.keyboard.press("c")
    browser_window.page.select_option("#change-what",
                                      value=f"input {page['live']['inputs'][0]['line']}")
    type_in(browser_window.page, "#change-value", "0.6")
    browser_window.page.evaluate("document.activeElement.blur()")
    said = browser_window.page.evaluate("""() => {
        const said = [];
        for (let last = false; !last;) {
            last = document.getElementById("next").disabled;
            said.push(document.querySelector("#verification strong")?.textContent);
            document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
        }
        return said.filter(Boolean);
    }""")
    assert set(said) == {"✓ recomputed"} and len(said) >= 10
    assert browser_window.complaints == []
    browser_window.context.close()


def test_an_injected_bug_takes_changes_back(opened: Any, page_for: Any) -> None:
    page, _ = page_for("lstm")
    browser_window = opened("lstm", fresh=True)
    browser_window.page.select_option("#break", index=1)
    browser_window.page.keyboard.press("c")
    browser_window.page.select_option("#change-what", label="T")
    type_in(browser_window.page, "#change-value", "0.1")
    assert browser_window.page.input_value("#break") == ""
    browser_window.page.select_option("#break", index=1)
    assert loss_shown(browser_window.page) == pytest.approx(page["loss"], rel=1e-8)
    browser_window.context.close()


# --- predict --------------------------------------------------------------------------------------


def asked(shown: Any, kind: str, text: str, page: dict[str, Any]) -> int:
    """Ask for something at the first step with a text; the number of the tensor it writes."""
    step = next(k for k, line in enumerate(page["steps"]) if line["text"] == text)
    shown.page.keyboard.press("p")
    shown.page.select_option("#predict-kind", kind)
    shown.page.evaluate("(step) => { location.hash = `#step=${step}`; }", step + 1)
    shown.page.wait_for_selector(f"#where b:text-is('Step {step + 1}')")
    return int(page["steps"][step]["targets"][0])


def score(shown: Any) -> list[int]:
    """How many were right at the first try, of how many."""
    words = shown.page.inner_text("#score").split()
    return [int(words[0]), int(words[2])]


@in_windows_of_all_widths
def test_a_shape_is_predicted(window: Any, page_for: Any) -> None:
    page, _ = page_for("lstm")
    shown = window("lstm")
    tensor = asked(shown, "shape", "dW_hy = ds @ h.T", page)
    assert not shown.page.is_visible(".side.writes .scroll")
    assert not shown.page.is_visible("#verification")
    rows, columns = page["tensors"][tensor]["shape"]
    shown.page.click(f".answers button:text-is('{columns} × {rows}')")
    assert "transpose" in shown.page.inner_text("#judged") and score(shown) == [0, 1]
    shown.page.click(f".answers button:text-is('{rows} × {columns}')")
    assert shown.page.inner_text("#judged").startswith("Right") and score(shown) == [0, 1]
    assert shown.page.is_visible(".side.writes .scroll") and shown.page.is_visible("#verification")
    shown.page.click("#mode-predict")
    shown.page.keyboard.press("ArrowRight")
    assert shown.page.is_visible(".side.writes .scroll")  # off: not in the way


def test_a_sign_is_predicted(window: Any, page_for: Any) -> None:
    page, _ = page_for("lstm")
    shown = window("lstm")
    tensor = asked(shown, "sign", "dc_prev = f * dc", page)
    largest = max(values(page, tensor), key=abs)
    right, wrong = ("positive", "negative")[:: 1 if largest > 0 else -1]
    shown.page.click(f".answers button:text-is('{wrong}')")
    assert "Look at the signs: f[" in shown.page.inner_text("#judged")
    shown.page.click(f".answers button:text-is('{right}')")
    assert shown.page.inner_text("#judged").startswith("Right")


def test_a_formula_is_predicted(window: Any, page_for: Any) -> None:
    page, _ = page_for("lstm")
    shown = window("lstm")
    asked(shown, "formula", "df = c_prev * dc", page)
    assert not shown.page.is_visible(".formula")
    assert "df = c_prev * dc" not in shown.page.inner_text("main")
    assert "c_prev" not in shown.page.inner_text("#live")
    shown.page.click(".answers button:text-is('dc')")
    assert "The factor c_prev is forgotten." in shown.page.inner_text("#judged")
    shown.page.click(".answers button:text-is('c_prev * dc')")
    assert shown.page.inner_text("#judged").startswith("Right")
    assert shown.page.is_visible(".formula")


def test_a_value_is_predicted_by_keyboard_alone(window: Any, page_for: Any) -> None:
    page, _ = page_for("lstm")
    shown = window("lstm")
    tensor = asked(shown, "value", "dh_hat = i * dc", page)
    step = next(k for k, line in enumerate(page["steps"]) if line["text"] == "dh_hat = i * dc")
    reads = {read["written"]: values(page, read["tensor"]) for read in page["steps"][step]["reads"]}
    entry = int(np.argmax(np.abs(values(page, tensor))))
    right = values(page, tensor)[entry]
    shown.page.focus("#answer")
    for answer, said in ((f"{-right:.6g}", "the sign is not"),
                         (f"{reads['dc'][entry]:.6g}", "The factor i is forgotten."),
                         ("x", "Type a number"), (f"{right:.3g}", "Right")):
        shown.page.keyboard.press("Control+a")
        shown.page.keyboard.type(answer)
        shown.page.keyboard.press("Enter")
        assert said in shown.page.inner_text("#judged")
    assert shown.page.evaluate("document.activeElement.id") == "next-question"
    shown.page.keyboard.press("Enter")
    assert shown.step() > step + 1 and shown.page.evaluate("document.activeElement.id") == "answer"
    shown.page.click("#reveal")
    assert shown.page.inner_text("#judged").startswith("It is") and score(shown) == [0, 2]


# --- find the bug ---------------------------------------------------------------------------------


@in_windows_of_all_widths
def test_a_bug_is_found(window: Any, page_for: Any) -> None:
    page, _ = page_for("lstm")
    shown = window("lstm", "#break=hidden-1")
    assert shown.page.get_attribute("#mode-hunt", "aria-pressed") == "true"
    for variant in page["variants"]:
        step = variant["edited"][0]["step"]
        shown.page.evaluate("(step) => { location.hash = `#step=${step}&break=hidden-1`; }",
                            step + 1)
        shown.page.wait_for_selector(f"#where b:text-is('Step {step + 1}')")
        assert not shown.page.query_selector("main del, main ins, .flag, .wrong-mark, .node.wrong")
        assert not shown.page.is_visible("#verification") and not shown.page.is_visible("#breaks")
        shown.page.click("#mark")
        said = shown.page.inner_text("#hunted")
        if said.startswith("Found"):
            break
        assert said.startswith("Not this line.") and len(said) > 30
    assert variant["title"] in said and shown.page.input_value("#break") == variant["id"]
    assert shown.page.query_selector(".wrong-mark") and shown.page.is_visible("#verification")
    assert shown.page.inner_text("#hunt-score").startswith("1 bug found")
    shown.page.click("#mode-hunt")
    assert shown.page.input_value("#break") == "" and not shown.page.query_selector(".wrong-mark")


def test_a_bug_is_looked_for_by_keyboard_alone(window: Any, page_for: Any) -> None:
    shown = window("rnn")
    shown.page.keyboard.press("b")
    hidden = shown.address()
    assert "break=hidden-" in hidden
    shown.page.keyboard.press("ArrowRight")
    for wanted in ("mark", "check", "give-up"):
        while shown.page.evaluate("document.activeElement.id") != wanted:
            shown.page.keyboard.press("Tab")
            assert shown.page.evaluate("document.activeElement !== document.body")
        shown.page.keyboard.press("Enter")
    assert shown.page.inner_text("#hunted").startswith("Here it is")
    assert shown.page.evaluate("document.activeElement.id") == "another"
    shown.page.keyboard.press("Enter")
    assert "break=hidden-" in shown.address()


def test_a_wrong_gradient_is_said_to_be_wrong(opened: Any, page_for: Any) -> None:
    page, _ = page_for("rnn")
    shown = opened("rnn", "#break=hidden-1", fresh=True)
    said = set()
    for verification in page["verifications"]:
        if verification["error"] is None:
            continue
        shown.page.evaluate("(step) => { location.hash = `#step=${step}&break=hidden-1`; }",
                            verification["step"] + 1)
        shown.page.wait_for_selector(f"#where b:text-is('Step {verification['step'] + 1}')")
        shown.page.click("#check")
        said |= {shown.page.inner_text("#hunted").split(": ")[-1][0]}
    assert said == {"✓", "✗"}
    shown.context.close()
