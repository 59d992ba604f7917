"""What pages show of attention and of both sides' words; where a reader begins, and jumps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from explored import data

from grads.stepper.explorer import build
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.settings import Settings
from tests.grads.stepper.explorer.test_page import NARROW, values

SOURCE = ["<unk>", "</s>", "wir", "lesen", "die", "Seite"]
TARGET = ["<unk>", "</s>", "we", "read", "the", "page"]
EDGES = """() => [...document.querySelectorAll(".attend:not([hidden])")].map((path) =>
    [path.dataset.from, path.dataset.to, parseFloat(path.style.strokeWidth)])"""
LABELS = """(name) => [...document.querySelectorAll(".writes figure.tensor")]
    .filter((figure) => name ===
        [...figure.querySelectorAll("figcaption > code")].at(-1)?.textContent)
    .map((figure) => [...figure.querySelectorAll("tbody th")].map((head) => head.textContent))"""
CUT = """async (steps) => { const cut = []; for (const step of steps) {
    const slider = document.getElementById("slider");
    slider.value = step;
    slider.dispatchEvent(new Event("input"));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const box = document.querySelector(".typeset");
    const marked = box?.classList.contains("cut-off");
    if (box && !marked && box.scrollWidth > box.clientWidth + 1) cut.push(step);
} return cut; }"""


def lines(data: dict[str, Any], text: str) -> list[int]:
    """The numbers, from 1, of the steps of a line."""
    return [k for k, step in enumerate(data["steps"], 1) if step["text"].startswith(text)]


def test_edges_from_every_source_state_into_the_step_that_attends(opened: Any,
                                                                  page_for: Any) -> None:
    data, _ = page_for("attention")
    for known in data["attention"]:
        window = opened("attention", f"#step={known['step'] + 1}")
        edges = window.page.evaluate(EDGES)
        assert [edge[0] for edge in edges] == [f"encoder/{s}/unit/2" for s in range(1, 5)]
        assert {edge[1] for edge in edges} == {f"decoder/{known['t']}/attention/"}
        weights = values(data, known["tensor"])
        widths = np.array([edge[2] for edge in edges])
        np.testing.assert_allclose((widths - 0.5) / 6, weights, atol=1e-3)
    assert opened("attention", "#step=40").page.evaluate(EDGES) == []  # the encoder still reads


def test_the_heat_map_fills_as_one_steps(opened: Any, page_for: Any) -> None:
    data, _ = page_for("attention")
    filled = "document.querySelectorAll('.alignment .known').length"
    steps = [step["step"] + 1 for step in data["attention"]]
    window = opened("attention", "#step=1")
    assert window.page.evaluate(filled) == 0
    for k, step in enumerate(steps):
        for number, rows in ((step - 1, k), (step, k + 1)):
            window.page.evaluate(f"location.hash = '#step={number}'")
            window.page.wait_for_selector(f"#where b:text-is('Step {number}')")
            assert window.page.evaluate(filled) == rows
    cells = window.page.query_selector_all(".alignment tbody td")
    assert len(cells) == 5 * 4
    rows_ = window.page.eval_on_selector_all(
        ".alignment tbody th", "all => all.map(x => x.textContent)")
    assert rows_ == ["we", "read", "the", "page", "</s>"]


def test_rows_bear_the_words_of_their_own_side(opened: Any, page_for: Any) -> None:
    data, _ = page_for("attention")
    encoder, decoder = lines(data, "W_e, (T, b) = tables_of(parameters, side, factors)"), lines(
        data, "W_e, T, b = weights(parameters, \"decoder\")")
    for steps, words in ((encoder, SOURCE), (decoder, TARGET)):
        labels = opened("attention", f"#step={steps[0]}").page.evaluate(LABELS, "W_e")
        assert labels and all(label == words for label in labels)
    for text, words in (("dW_e = INPUTS[reads(factors)].backward(x[s - 1]", SOURCE),
                        ("dW_e = embed_grad([END, *y]", TARGET)):
        for step in lines(data, text):
            labels = opened("attention", f"#step={step}").page.evaluate(LABELS, "dW_e")
            assert labels and all(label == words for label in labels), (text, step)


def test_words_belong_to_their_side_where_all_sizes_are_equal(opened: Any, page_for: Any) -> None:
    """Four words read, four in the vocabulary to be written, four rows of gates or of a state."""
    source, target = ["da", "ist", "die", "Seite"], ["<unk>", "</s>", "a", "page"]

    def labels(name: str, text: str, tensor: str) -> list[list[str]]:
        steps = lines(page_for(name)[0], text)
        assert steps, text
        window = opened(name, f"#all=1&step={steps[-1]}")
        read: list[list[str]] = window.page.evaluate(LABELS, tensor)
        return read

    assert labels("local", "s = np.arange(S)", "s") == [source]
    assert labels("local", "s = W_hy @ h", "s") == [target]
    assert labels("local", "ds = p - one_hot", "ds") == [target]
    assert labels("local", "a = T @ z + b", "a") == [["i", "f", "o", "ĥ"]]
    assert labels("local", "a = M @ b", "a") == [source]
    assert labels("rnnsearch", "s[i] = gru_context", "s[5]") == []
    assert labels("rnnsearch", "s[i] = gru_context", "s[3]") == [[]]
    assert labels("rnnsearch", "ds[i - 1] = ds[i - 1]", "ds[0]") == [[]]
    assert labels("rnnsearch", "s = W_hy @ h", "s") == [target]
    assert labels("rnnsearch", "alpha = softmax(e)", "alpha") == [source]


def test_what_a_line_cites_stands_in_full_beside_it(opened: Any, page_for: Any) -> None:
    cited = "all => all.map((x) => x.innerText)"
    for name, text, titles, words in (
            ("location", "K = np.eye(", ["Footnote 5", "Erratum 7"], "uses the top part of it"),
            ("lstm", "da = g_prime(a) * du", ["Erratum 4"], "at the pre-activation, while"),
            ("rnn", "dW_e = embed_grad", ["Remark (b)"], "W_e".replace("_", "")),
            ("lstm", "dT_h = da @ h_prev.T", ["Lemma 1"], "(2.11, 2.12)")):
        window = opened(name, f"#step={lines(page_for(name)[0], text)[0]}")
        citations = window.page.eval_on_selector_all(".cited", cited)
        assert [citation.partition("\n")[0].partition(":")[0] for citation in citations] == titles
        assert words in "".join(citations)


def test_without_input_feeding_nothing_is_fed(opened: Any, page_for: Any) -> None:
    data, _ = page_for("unfed")
    assert "without input feeding" in data["title"] and "--no-feeding" in data["command"]
    step = lines(data, "z = np.vstack([v, fed])")[0] - 1
    assert data["steps"][step]["formula"].startswith("{unfed}")
    assert not opened("unfed").page.query_selector(".edge.fed")
    assert opened("attention").page.query_selector(".edge.fed")


def test_the_end_of_the_backward_is_labelled_and_not_endless(opened: Any, page_for: Any) -> None:
    data, _ = page_for("attention")
    window = opened("attention", f"#step={len(data['steps'])}", viewport={"width": 1400,
                                                                          "height": 900})
    assert window.page.evaluate("document.documentElement.scrollHeight") < 3200
    window.page.click(".side.writes .more")
    [labels] = window.page.evaluate(LABELS, "gradients['encoder.0.W']")
    assert labels == ["i", "f", "o", "ĥ"]
    assert not window.page.query_selector(".side.writes .tensor:not(.gradient)")


def test_the_softmax_of_attention_has_its_own_equation() -> None:
    softmaxes = {step["formula"]: step for step in data("attention")["steps"]
                 if step["text"].startswith("e = np.exp(")}
    assert len(softmaxes) == 2
    for formula, step in softmaxes.items():
        attends = "{attend}" in formula
        assert ((step["cell"] or {}).get("part") == "attention") == attends


def test_titles_say_the_variant() -> None:
    def title(name: str, **settings: Any) -> str:
        return open_example(name, Settings(**settings)).run.title

    assert "(concat, local-p, with input feeding)" in title(
        "attention", sentence="a ||| b", score="concat", window="local-p", layers=1, hidden=1)
    assert title("attention-step", score="dot").endswith("dot, global")
    context = data("gru-context")
    assert "with a context" in context["title"] and len(context["variants"]) == 3


@pytest.mark.parametrize("name", ["gru", "gru-context", "gru-after", "general"])
def test_a_projection_is_not_called_nats(name: str, opened: Any) -> None:
    page = opened(name).page
    about = page.inner_text("#about")
    assert "nats" not in about and "upstream gradient" in about
    assert not page.is_visible(".stage")


@pytest.mark.parametrize("options", [{"viewport": {"width": 1400, "height": 900}},
                                     {"viewport": NARROW}])
def test_no_equation_is_cut_without_a_mark(options: Any, opened: Any, page_for: Any) -> None:
    steps = page_for("attention")[0]["steps"]
    first = [[step["formula"] for step in steps].index(formula) + 1
             for formula in dict.fromkeys(step["formula"] for step in steps) if formula]
    assert opened("attention", "", **options).page.evaluate(CUT, first) == []


def test_begins_where_the_mathematics_begins(opened: Any, page_for: Any) -> None:
    data, _ = page_for("attention")
    window = opened("attention")
    first = window.step()
    assert first > 1 and data["steps"][first - 1]["formula"]
    assert all(step.get("bookkeeping") for step in data["steps"][: first - 1])
    seen = set()
    for _ in range(60):
        window.page.keyboard.press("ArrowRight")
        seen.add(window.step())
    assert not any(data["steps"][k - 1].get("bookkeeping") for k in seen)
    window.page.check("#all")
    window.page.keyboard.press("Home")
    assert window.step() == 1
    window.page.keyboard.press("ArrowRight")
    assert window.step() == 2 and "all=1" in window.address()


def test_jumps(opened: Any, page_for: Any) -> None:
    data, _ = page_for("attention")
    window = opened("attention")
    options = dict(window.page.eval_on_selector_all(
        "#jump option", "all => all.map(x => [x.textContent, x.value])"))
    window.page.select_option("#jump", options["start of the backward pass"])
    assert data["steps"][window.step() - 1]["pass"] == "backward"
    window.page.select_option("#jump", options["t = 3, decoder"])
    assert data["steps"][window.step() - 1]["loops"][0] == ["t", 3]
    equation = next(value for text, value in options.items() if text.startswith("(4.5)"))
    window.page.select_option("#jump", equation)
    assert window.page.inner_text(".formula .tag") == "(4.5)"


def test_a_phone_shows_the_equation_first(opened: Any, page_for: Any) -> None:
    """On its first screen, above the bar of buttons."""
    for name in ("lstm", "attention"):
        window = opened(name, "", viewport=NARROW)
        box = window.page.query_selector(".formula").bounding_box()
        bar = window.page.query_selector(".transport").bounding_box()
        assert box["y"] + 60 < bar["y"]


def test_a_page_of_ones_own_function(browser: Any, tmp_path: Any) -> None:
    """It says which gradients are right, names no path and no null."""
    from grads.stepper.explorer.page import DERIVATION
    from nmt.pages.page import write_page
    from tests.grads.stepper.explorer.conftest import Opened
    from tests.grads.stepper.test_own_verification import SOURCE as OWN
    for name, text, verdict in (("loop", OWN, "right"), (
            "loop", OWN.replace("dU += np.outer(da, h[t - 1])", "dU += np.outer(da, h[t])"),
            "WRONG")):
        (tmp_path / "mine.py").write_text(text)
        write_page(build(f"{tmp_path / 'mine.py'}:{name}"), tmp_path / "page.html", DERIVATION)
        window = Opened(browser, tmp_path / "page.html", "#all=1")
        assert verdict in window.page.inner_text(".verdict")
        body = window.page.inner_text("body")
        assert "null" not in body and str(tmp_path) not in body
        red = "document.querySelectorAll('.status.wrong, .tensor.wrong').length"
        red_marks = 0
        for _ in window.walk():
            window.page.keyboard.press("ArrowLeft")
            red_marks += window.page.evaluate(red)
        assert (red_marks > 0) == (verdict == "WRONG") and window.complaints == []
        window.context.close()


def test_the_table_of_a_wrong_gradient_begins_with_what_differs(browser: Any, tmp_path: Any
                                                                ) -> None:
    """The first row is the selected entry, here a right one."""
    from grads.stepper.explorer.page import DERIVATION
    from nmt.pages.page import write_page
    from tests.grads.stepper.explorer.conftest import Opened
    from tests.grads.stepper.test_own_styles import LOSS
    (tmp_path / "mine.py").write_text(LOSS.replace("dh * (a > 0)", "dh * (a > 1)"))
    write_page(build(f"{tmp_path / 'mine.py'}:net_loss"), tmp_path / "page.html", DERIVATION)
    window = Opened(browser, tmp_path / "page.html", "")
    rows = window.page.eval_on_selector_all(
        ".compare tbody tr", "rows => rows.map(row => row.className)")
    assert len(rows) == 8 and rows[0] == "chosen" and set(rows[1:]) == {"differs"}
    window.context.close()
