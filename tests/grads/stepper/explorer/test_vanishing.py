"""The page of vanishing gradients shows the norms that the derivations give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backend.errors import UserError
from grads.cli import main
from grads.derivations.gru import Unit, gru, gru_grad
from grads.derivations.lstm import lstm, lstm_grad
from grads.derivations.rnn import rnn, rnn_grad
from grads.stepper.explorer.flow import size
from grads.stepper.explorer.vanishing import build_vanishing, explore_vanishing
from tests.grads.stepper.explorer.conftest import Opened
from tests.grads.stepper.explorer.test_page import TO, slow_steps

H = 24


def weights(unit: dict[str, Any], radius: float) -> dict[str, np.ndarray]:
    """A unit's inputs by name, its recurrent weights of that radius."""
    arrays = {}
    for entry in unit["inputs"]:
        shape = unit["shapes"][unit["lines"][entry["line"]][1]]
        arrays[entry["name"]] = np.array(entry["values"]).reshape(shape)
        if entry["name"] in unit["radius"]:
            arrays[entry["name"]][:, -H:] *= radius
    return arrays


def expected(data: dict[str, Any], length: int, radius: float, bias: float) -> dict[str, float]:
    """|dh| after so many steps back, by unit."""
    x = np.array(data["words"])[:length, :, None]
    rnn_weights, two, three = (weights(unit, radius) for unit in data["units"])
    zero = np.zeros((H, 1))
    start = np.array(data["direction"])[:, None]
    b, b_z = two["b"].copy(), three["b_z"] + bias
    b[H : 2 * H] += bias
    unit = Unit(**{name: three[name] for name in Unit._fields} | {"b_z": b_z})
    h, s, states = [zero], [zero], [(zero, zero)]
    for x_t in x:
        h.append(rnn(x_t, h[-1], rnn_weights["T"]))
        states.append(lstm(*states[-1], x_t, two["T"], b))
        s.append(gru(x_t, s[-1], unit))
    dh, ds, (dg, dc) = start, start, (start, zero)
    for t in range(length, 0, -1):
        dh = rnn_grad(dh, x[t - 1], h[t - 1], rnn_weights["T"])[0]
        dg, dc, *_ = lstm_grad(dg, dc, *states[t - 1], x[t - 1], two["T"], b)
        ds = gru_grad(ds, x[t - 1], s[t - 1], unit)[1]
    return {"RNN": size(dh), "LSTM": size(dg), "GRU": size(ds)}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page."""
    return explore_vanishing(tmp_path_factory.mktemp("vanishing") / "page.html")


@pytest.mark.parametrize("width", [1400, 768, 390])
def test_norms_are_those_of_the_derivations(width: int, path: Path, browser: Any) -> None:
    data = build_vanishing()
    window = Opened(browser, path, "", viewport={"width": width, "height": 900})
    page = window.page

    def shown() -> dict[str, float]:
        cells = page.query_selector_all("#reach [data-unit]")
        return {cell.get_attribute("data-unit"): float(cell.get_attribute("title"))
                for cell in cells}

    assert shown() == pytest.approx(expected(data, 30, 0.9, 0), rel=1e-12)
    for name, text in (("length", "45"), ("radius", "1.5"), ("bias-LSTM", "3"), ("bias-GRU", "3")):
        page.fill(f"#{name}-typed", text)
        page.press(f"#{name}-typed", "Enter")
    assert shown() == pytest.approx(expected(data, 45, 1.5, 3), rel=1e-11)
    assert len(page.query_selector_all("#charts .series.bound")) == 2  # and its legend
    page.fill("#radius-typed", "9")
    page.press("#radius-typed", "Enter")
    assert page.input_value("#radius") == "2"  # the largest
    page.focus("#length")
    page.keyboard.press("ArrowLeft")
    assert page.input_value("#length-typed") == "44"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert window.complaints == [] and window.requests == [path.as_uri()]
    assert path.stat().st_size < 1_000_000
    window.context.close()


@pytest.mark.alone
def test_a_move_of_the_slider_takes_less_than_50_ms(path: Path, browser: Any) -> None:
    page = Opened(browser, path, "").page
    assert slow_steps(page, TO.replace('"slider"', '"length"'), [3, 20, 40, 60], 5) == []
    page.context.close()


@pytest.mark.parametrize(("arguments", "said"), [
    (["explore", "vanishing", "--hidden", "3"], "hidden: vanishing has none"),
    (["walk", "vanishing"], "expected one of")])
def test_it_takes_no_options_of_a_derivation(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2 and said in capsys.readouterr().err


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        explore_vanishing(tmp_path / "file" / "page.html")
