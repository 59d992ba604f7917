"""Lines of a user's code as formulas: what each construct becomes, and that a browser shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from grads.stepper.explorer.data import build, explore
from grads.stepper.explorer.mathml import typeset
from tests.grads.stepper.explorer.conftest import Opened
from tests.grads.stepper.test_own_verification import SOURCE


def linear(element: ElementTree.Element) -> str:
    """MathML in a line: _{below}, ^{above}, {over/under}."""
    parts = [linear(child) for child in element]
    match element.tag:
        case "msub":
            return "{}_{{{}}}".format(*parts)
        case "msup":
            return "{}^{{{}}}".format(*parts)
        case "msubsup":
            return "{}_{{{}}}^{{{}}}".format(*parts)
        case "mfrac":
            return "{{{}/{}}}".format(*parts)
        case "msqrt":
            return f"√{{{''.join(parts)}}}"
        case "mover":
            return "".join(parts)
        case "mspace":
            return " "
        case _:
            return (element.text or "").replace("\u00a0", " ") + "".join(parts)


def read(text: str, numbers: tuple[str, ...] = ()) -> str | None:
    """A statement's formula in a line; None where it has none."""
    markup = typeset(text, numbers)
    return markup and " ".join(linear(piece) for piece in ElementTree.fromstring(markup)
                               if piece.tag == "math")


@pytest.mark.parametrize(("text", "formula"), [
    ("v = np.dot(W, h)", "v =W h"),
    ("v = W.dot(h) + self.b", "v =W h +b"),
    ("v = A * B @ C", "v =(A⊙B) C"),
    ("v = A @ (B * C)", "v =A (B⊙C)"),
    ("h = np.tanh(a)", "h =tanh(a)"),
    ("u = 1 / (1 + np.exp(-a))", "u ={1/1+exp(−a)}"),
    ("dx = 2 * (1 - h ** 2) * dh", "dx =2·(1−h^{2})⊙dh"),
    ("dx = -a * b - (c - d)", "dx =−a⊙b −(c−d)"),
    ("dx = np.multiply(a + b, c)", "dx =(a+b)⊙c"),
    ("dW += np.outer(da, h[t - 1])", "dW ←dW +da h_{t−1}^{⊤}"),
    ("db -= lr * x", "db ←db −lr·x"),
    ("dx = da @ W.T, np.transpose(W)", "dx =da W^{⊤},W^{⊤}"),
    ("q = np.sum(a, axis=1)", "q =∑_{axis 1}(a)"),
    ("q = a.sum(0) + np.exp(a).sum()", "q =∑_{axis 0}(a) +∑(exp(a))"),
    ("s = np.sqrt(x) + x ** 0.5 + np.square(x)", "s =√{x} +√{x} +x^{2}"),
    ("c = a[:, 2:H] + b[0][i] + d[None, ...]", "c =a_{:,2:H} +b_{0,i} +d_{·,…}"),
    ('W = p["W"]', "W =p_{W}"),
    ("h_prev = h_hat_t + dW_xh + W1 + Wxh", "h_{prev} =h^_{t} +dW_{xh} +W_{1} +W_{xh}"),
    ("lambda_ = dalpha + Sigma_1 + eps + mu", "λ =dα +Σ_{1} +ε +μ"),
    ("z = np.concatenate([x, h])", "z =[x;h]"),
    ("z = np.concatenate([x, h], axis=1)", "z =[x,h]"),
    ("n = np.abs(x) + np.linalg.norm(x)", "n =|x| +‖x‖"),
    ("n = np.roll(x, 1, axis=0)", "n =roll_{axis 0}(x,1)"),
    ("n = np.std(x, ddof=1)", None),
    ("dh = np.zeros_like(h)", "dh =0"),
    ("y = np.maximum(0, x) + sigmoid(x.copy())", "y =max(0,x) +σ(x)"),
    ("dx = dy * (x > 0)", "dx =dy⊙(x>0)"),
    ("eps = 1e-8 + 2.5e-7 * a", "ε =10^{−8} +2.5·10^{−7}·a"),
    ("h, cache = step(x, h=h)", None),
    ("h, cache = step(x[t], h)", "h,cache =step(x_{t},h)"),
    ("x = [f(v) for v in x]", None), ("x = a if b else c", None), ("d = {1: a}", None),
    ("self.x = x", None), ("self.x = x + y", "x =x +y"), ("x = flag and True", None),
    ("h.append(x)", None), ("x = (", None)])
def test_constructs(text: str, formula: str | None) -> None:
    assert read(text, ("lr",)) == formula


def test_names_are_escaped() -> None:
    assert "&lt;b&gt;" in str(typeset('x = p["<b>"]'))


def test_a_page_shows_the_formula_of_each_line(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE)
    name = f"{tmp_path / 'mine.py'}:loop"
    data = build(name)
    lines = {step["text"] for step in data["steps"] if "bookkeeping" not in step}
    assert lines - set(data["typeset"]) == {"h = {-1: h0}", "return states, (x, h, W, U)"}
    window = Opened(browser, explore(name, tmp_path / "page.html"), "")
    step = next(k for k, line in enumerate(data["steps"]) if line["text"].startswith("dU += "))
    window.page.evaluate("(step) => { location.hash = `#step=${step}`; }", step + 1)
    window.page.wait_for_selector(f"#where b:text-is('Step {step + 1}')")
    shown = window.page.eval_on_selector_all(
        "#equation math", "all => all.map((one) => one.textContent)")
    assert [re.sub(r"\s", "", piece) for piece in shown] == ["dU", "←dU", "+daht−1⊤"]
    above, below = window.page.evaluate("""() => {
        const [base, index, raised] = [...document.querySelector("#equation msubsup").children]
            .map((one) => one.getBoundingClientRect());
        return [index.top - raised.top, base.height];
    }""")
    assert above > 0.4 * below
    assert window.page.text_content("#mode-keys") == "p predict"  # nothing else is offered here
    assert not window.page.is_visible("#cell-keys")
    assert window.complaints == []
    window.context.close()
