"""Logits taken apart, beside the predictions of a run: on its page, and in the terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from explored import data, step_of, values_of

from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.logits import DIGITS, predictions, said_logits
from grads.stepper.explorer.settings import Settings

# Derivations that predict, and how many target words their examples predict
PREDICTING = {"lstm": 4, "attention": 5, "rnnsearch": 5, "lexical": 3, "transformer": 5,
              "deep-fusion": 1, "hybrid": 3, "smoothing": 1}
CLOSE = 10.0 ** (2 - DIGITS)


@pytest.mark.parametrize("name", PREDICTING)
def test_the_parts_make_the_logits_of_the_page(name: str) -> None:
    d = data(name)
    assert len(d["logits"]) == PREDICTING[name]
    for prediction in d["logits"]:
        number = next(i for i in range(prediction["first"], prediction["last"] + 1)
                      if d["steps"][i]["text"].startswith("s = "))
        s = values_of(d, d["steps"][number]["targets"][0]).ravel()
        assert len(prediction["words"]) == min(3, len(s))
        assert prediction["words"][1]["logit"] == pytest.approx(
            max(np.delete(s, np.argmin(np.abs(s - prediction["words"][0]["logit"])))), rel=CLOSE)
        for word in prediction["words"]:
            assert np.abs(s - word["logit"]).min() < CLOSE
            assert word["p"] == pytest.approx(
                np.exp(word["logit"]) / np.exp(s).sum(), rel=CLOSE)
            logit = word["bias"]
            for norm, length, cosine, product in word["products"]:
                assert norm * length * cosine == pytest.approx(product, rel=CLOSE, abs=CLOSE)
                assert norm > 0 and length > 0 and -1 <= cosine <= 1
                logit += product
            assert logit == pytest.approx(word["logit"], abs=CLOSE)
        assert len(prediction["words"][0]["products"]) == 1 + (name == "lexical")


def test_the_first_is_the_word_to_be_predicted() -> None:
    d = data("attention")
    assert [prediction["words"][0]["word"] for prediction in d["logits"]] == [
        column["next"] for column in d["network"]["columns"] if column["side"] == "decoder"]


@pytest.mark.parametrize("name", ["factored", "multihead", "gru"])
def test_without_predictions_there_are_none(name: str) -> None:
    assert data(name)["logits"] == []


def test_of_several_tasks_those_of_the_words_that_are_named() -> None:
    run = open_example("multitask", Settings(seed=1)).run
    assert 0 < len(list(predictions(run))) < len([
        call for call in run.forward.calls if call.function == "predict"])


def test_in_the_terminal() -> None:
    run = open_example("lexical", Settings(seed=1)).run
    first = next(predictions(run)).logits
    said = said_logits(first)
    assert said.splitlines()[1].startswith(f"        {first[0].word}: {first[0].value:.4g} = ")
    assert said.count(" x ") == 4 * len(first) and len(said.splitlines()) == 1 + len(first)


PANEL = """() => {
    const panel = document.getElementById("logits");
    return panel.hidden ? null : [...panel.querySelectorAll("tr")].map((row) =>
        [...row.children].map((one) => one.textContent));
}"""


@pytest.mark.parametrize("name", ["attention", "transformer", "rnnsearch"])
def test_the_panel_stands_beside_predictions_only(name: str, opened: Any, page_for: Any) -> None:
    d = page_for(name)[0]
    prediction = d["logits"][1]
    page = opened(name, f"#step={prediction['first'] + 1}").page
    rows = page.evaluate(PANEL)
    words = [word["word"] for word in prediction["words"]]
    assert rows[0][1:] == [f"{words[0]} target", *words[1:]]
    assert [row[0] for row in rows[1:]] == ["|w|", "|h|", "cos(w, h)", "w·h", "b", "logit", "p"]
    shown = [float(text.replace("\N{MINUS SIGN}", "-")) for text in rows[-2][1:]]
    assert shown == pytest.approx([word["logit"] for word in prediction["words"]], rel=1e-3)
    back = next(i for i, step in enumerate(d["steps"]) if step["pass"] == "backward" and
                step["partner"] is not None and prediction["first"] <= step["partner"]
                <= prediction["last"])
    assert opened(name, f"#step={back + 1}").page.evaluate(PANEL) == rows
    assert opened(name, f"#step={step_of(d, 'J = ') + 1}").page.evaluate(PANEL) is None


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 844}},
                                     {"color_scheme": "dark"}], ids=["phone", "dark"])
def test_it_fits_and_complains_of_nothing(options: Any, opened: Any, page_for: Any) -> None:
    window = opened("attention", f"#step={page_for('attention')[0]['logits'][0]['first'] + 1}",
                    **options)
    assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert window.page.evaluate("""() => {
        const table = document.querySelector("#logits .scroll");
        return table.scrollWidth <= table.clientWidth;
    }""") and window.complaints == []


@pytest.mark.parametrize("name", ["attention", "lexical", "transformer"])
def test_of_matrices_larger_than_a_trace_holds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of trained models are: the matrices are arguments, which are there in any case."""
    small = [prediction.logits
             for prediction in predictions(open_example(name, Settings(seed=1)).run)]
    monkeypatch.setattr("grads.stepper.tracing.run.HELD", 20)
    run = open_example(name, Settings(seed=1)).run
    assert max(np.size(array) for array in run.forward.alive.values()) > 20
    assert [prediction.logits for prediction in predictions(run)] == small
