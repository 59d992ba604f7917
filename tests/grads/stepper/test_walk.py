"""`grads walk`: what is printed, what keys do, a user's own functions."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from backend.errors import UserError
from grads.stepper.explorer.settings import Settings
from grads.stepper.tracing import record
from grads.stepper.walk import draw, first_key, jumped, moved, open_shown, walk

ROOT = Path(__file__).resolve().parents[3]
OWN = '''
import numpy as np

def layer_inputs(rng):
    return [rng.normal(size=(2, 3)), rng.normal(size=(4, 3))]

def layer_forward(x, W):
    a = x @ W.T
    h = np.tanh(a)
    return h, (x, W, h)

def layer_backward(dh, cache):
    x, W, h = cache
    da = (1 - h**2) * dh
    dx = da @ W
    dW = da.T @ x
    return dx, dW

def square_inputs(rng):
    return rng.normal(size=3)

def square(x):
    y = x**2
    return y.sum()

def square_gradient(x):
    dx = 3 * x
    return dx

def kink_inputs(rng):
    return [np.array([0.0, 2.0])]

def kink(x):
    y = abs(x)
    return y.sum()

def kink_gradient(x):
    dx = np.sign(x)
    return dx

def alone_inputs(rng):
    return [2.0]

def alone(x):
    y = x + 1
    return y

def endless_inputs(rng):
    return [1.0]

def endless(x):
    while True:
        x = x + 1

def spinning_inputs(rng):
    return [1.0]

def spinning_forward(x):
    while True:
        x = x + 1

def spinning_backward(d, cache):
    return d

class Turning:
    def loss(self, x):
        while True:
            x = x + 1

    def forward(self, x):
        while True:
            x = x + 1

    def backward(self, d):
        return d

layer_turning = Turning()
method_turning = layer_turning.loss

def layer_turning_inputs(rng):
    return [np.ones(3)]

def method_turning_inputs(rng):
    return [np.ones(3)]

def oneline_inputs(rng):
    return [rng.normal(size=3)]

def oneline(x): return (x * x).sum()

def oneline_gradient(x):
    dx = 2 * x
    if len(x) > 1: return dx

def picky_inputs(rng):
    return [np.array([0.5, 0.25])]

def picky(x):
    assert x.max() <= 0.5, "no step may be taken"
    y = {0.5: x}[float(x[0])]
    return y.sum()

def picky_gradient(x):
    dx = np.ones(2)
    return dx

def extreme_inputs(rng):
    return [np.array([1e308, -1.7e308])]

def extreme(x):
    y = np.tanh(x)
    return y.sum()

def extreme_gradient(x):
    dx = np.zeros(2)
    return dx

def seedless_inputs():
    return [1.0]

seedless = alone

def failing_inputs(rng):
    return [1]

def rectangle_inputs(rng):
    return 2.0, 3.0

def rectangle(x, y):
    return x * y

def rectangle_gradient(x, y):
    return y, x

def failing(x):
    return x / 0
'''


@pytest.fixture
def pair_file(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    return tmp_path / "mine.py"


@pytest.fixture
def printed(capsys):
    """What a walk prints."""

    def call(*arguments, **settings):
        capsys.readouterr()
        walk(*arguments, **settings)
        return capsys.readouterr().out

    return call


def test_all_steps_of_the_lstm_are_printed(printed):
    text = printed("lstm", all=True, seed=1)
    heads = re.findall(r"^step (\d+) of (\d+) ", text, re.MULTILINE)
    assert [int(number) for number, _ in heads] == list(range(1, int(heads[0][1]) + 1))
    pages = re.split(r"^step ", text, flags=re.MULTILINE)[1:]
    marked = [re.search(r"^> +\d+ │ +(.*)$", page, re.MULTILINE)[1] for page in pages]
    step = next(page for page, line in zip(pages, marked, strict=True)
                if line.startswith("do = np.tanh(c) * dh"))
    assert "lstm_grad, grads/derivations/lstm.py:" in step and "t=4" in step
    assert "equation 2.41" in step
    assert re.search(r"reads  c  \(3 × 1\)( +-?\d[\d.e-]*){3}\n", step)
    assert re.search(r"makes  do  \(3 × 1\)( +-?\d[\d.e-]*){3}\n", step)
    verification = re.search(r"verified: d loss / d o \(made at step (\d+)\), 3 of 3 entries, "
                      r"relative error (\S+) \(complex step; central differences agree with it "
                      r"to (\S+)\)\n", step)
    assert float(verification[2]) < 1e-10 and float(verification[3]) < 1e-5
    assert marked[int(verification[1]) - 1] == "i, f, o, h_hat = np.split(u, 4)"
    numbers = [float(number) for number in re.search(r"\[0, 0\](.*)", step)[1].split()]
    assert len(numbers) == 3 and numbers[0] == pytest.approx(numbers[1], rel=1e-10)
    assert numbers[0] == pytest.approx(numbers[2], rel=1e-5)
    assert "wrong: " not in text


def test_a_pipe_gets_everything_without_control_codes(printed):
    text = printed("gru")
    assert text.count("\nstep ") == 29 and "\x1b" not in text
    assert "(2.17)" in text


def test_settings_reach_the_derivation(printed):
    text = printed("attention", sentence="a b ||| c", hidden=2, layers=1, seed=4)
    assert re.search(r"makes  h_bar  \(2 × 2\)", text) and "wrong: " not in text


def test_own_pair_is_verified(pair_file, printed):
    text = printed(f"{pair_file}:layer")
    assert "layer_backward, mine.py:" in text
    assert len(re.findall("verified: d loss / d", text)) == 3 and "wrong: " not in text


def test_own_gradient_that_is_wrong_is_said_to_be(pair_file, printed):
    """With one error, its own: the central differences are compared with the complex step."""
    match = re.search(r"wrong: d loss / d x, 3 of 3 entries, relative error 0.33 \(complex step; "
                      r"central differences agree with it to (\S+)\)\n",
                      printed(f"{pair_file}:square"))
    assert float(match[1]) < 1e-6


def test_at_a_kink_the_reason_stands_beside_the_error(pair_file, printed):
    text = printed(f"{pair_file}:kink")
    assert "undecided: d loss / d x, 2 of 2 entries, relative error 0.0e+00 (the methods" in text
    assert not re.search("analytic .*central", text)


def test_a_function_on_one_line_and_a_return_behind_its_condition(pair_file, printed):
    text = printed(f"{pair_file}:oneline")
    assert "verified: d loss / d x, 3 of 3 entries" in text and "right for x." in text


def test_the_verdict_is_on_what_is_returned_where_no_line_has_a_gradient(pair_file, printed):
    text = printed(f"{pair_file}:rectangle")
    assert "right for x, y." in text and text.splitlines()[-1].startswith("RIGHT: what the backw")


def test_a_run_that_the_functions_own_assertion_ends_decides_nothing(pair_file, printed):
    text = printed(f"{pair_file}:picky")
    assert "undecided for x" in text and "undecided: d loss / d x, 2 of 2 entries" in text


@pytest.mark.filterwarnings("error")
def test_inputs_at_the_end_of_the_numbers(pair_file, printed):
    assert "right for x." in printed(f"{pair_file}:extreme")


def test_own_function_alone_has_values_only(pair_file, printed):
    text = printed(f"{pair_file}:alone", seed=3)
    assert re.search(r"reads  x  \(number\) +2\.?0*\nmakes  y  \(number\) +3\.?0*\n", text)
    assert "d loss" not in text


@pytest.mark.parametrize(("name", "settings", "message"), [
    ("gur", {}, "did you mean 'gru'"),
    ("{own}:layr", {}, "did you mean 'layer_inputs'"),
    ("{own}:endless", {}, "endless has not ended after 100000"),
    ("{own}:failing", {}, "mine.py:failing: ZeroDivisionError: division by zero at "),
    ("{own}:seedless", {}, "mine.py: expected a function seedless_inputs(rng): seedless_inputs() "),
    ("{own}:layer", {"hidden": 3}, "hidden: "),
    ("none.py:f", {}, "none.py: expected a Python file, found none"),
])
def test_bad_input_is_one_clear_line(name, settings, message, pair_file):
    with pytest.raises(UserError) as caught:
        walk(name.format(own=pair_file), **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "message"), [
    ("spinning", "spinning_forward has not ended after 5000"),
    ("method_turning", "has not ended after 5000"),
    ("layer_turning", "has not ended after 5000"),
])
def test_whatever_turns_without_end_is_stopped(name, message, pair_file, monkeypatch):
    monkeypatch.setattr(record, "STEPS", 5000)
    with pytest.raises(UserError) as caught:
        walk(f"{pair_file}:{name}")
    assert message in str(caught.value) and "\n" not in str(caught.value)


# --- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sent", "does", "rest"), [
    ("\x1b[Cq", "on", "q"), ("\x1bOD", "back", ""), (" x", "on", "x"), ("b", "back", ""),
    ("7\r", "7", "\r"), ("\r", "enter", ""), ("q", "leave", ""), ("z1", None, "1"),
    ("\x1b[15~1", None, "1"), ("\x1b", None, ""),
])
def test_what_a_key_does(sent, does, rest):
    assert first_key(sent) == (does, rest)


def test_moving():
    here, typed = 4, ""
    for key, expected in [("on", 5), ("back", 4), ("first", 0), ("back", 0), ("last", 9),
                          ("on", 9), ("1", 9), ("2", 9), ("enter", 9), ("4", 9), ("enter", 3),
                          ("0", 3), ("enter", 0), ("enter", 1)]:
        here, typed = moved(here, typed, key, 10)
        assert here == expected
    assert moved(3, "12", "back", 10) == (2, "")


def screen(master: int, wanted: str) -> str:
    """What the terminal shows from here on, until `wanted` is on it."""
    text, end = "", time.monotonic() + 60
    while wanted not in text and time.monotonic() < end:
        if select.select([master], [], [], 1)[0]:
            text += os.read(master, 65536).decode("utf-8", "replace")
    assert wanted in text
    return text


def test_in_a_terminal():
    master, slave = pty.openpty()
    code = "from grads.stepper.walk import walk; walk('gru')"
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40",
                   "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen([sys.executable, "-c", code], stdin=slave, stdout=slave,
                               stderr=subprocess.PIPE, env=environment)
    try:
        os.close(slave)
        screen(master, "step 2 of 29")  # the first with an equation
        for sent, wanted in [(b"\x1b[C", "step 3 of 29"), (b" ", "step 4 of 29"),
                             (b"\x1b[D", "step 3 of 29"),
                             (b"\x1b[D", "step 2 of 29"), (b"2", "go to step 2"),
                             (b"0\r", "step 20 of 29"), (b"G", "step 29 of 29"),
                             (b"g", "step 1 of 29")]:
            os.write(master, sent)
            assert "q leave" in screen(master, wanted) or wanted.startswith("go to") or screen(
                master, "q leave")
        os.write(master, b"q")
        screen(master, "\x1b[?1049l")  # the screen is given back
        assert running.wait(20) == 0, running.stderr.read()
    finally:
        running.kill()
        running.stderr.close()
        os.close(master)


# --- jumps --------------------------------------------------------------------------------------


def test_jumps_to_time_steps_and_to_the_backward_pass():
    shown = open_shown("lstm", Settings(seed=1))[0]
    place = [(name, step.loops[:1]) for name, step in shown.steps]
    first = shown.next_time(0, 1)
    assert place[first] == ("forward", (("t", 1),)) and place[first - 1] == place[0]
    second = jumped(shown, first, "next time")
    assert place[second] == ("forward", (("t", 2),)) and place[second - 1] != place[second]
    assert jumped(shown, second + 3, "time before") == first
    assert jumped(shown, 0, "time before") == 0
    back = jumped(shown, 0, "backward")
    assert shown.steps[back][0] == "backward" and shown.steps[back - 1][0] == "forward"
    assert jumped(shown, 4, "on") == 4
    assert jumped(shown, 0, "equation") == shown.begin() > 1
    assert all(shown.equation(*shown.steps[k]) is None for k in range(shown.begin()))
    assert jumped(shown, len(shown) - 1, "equation") == len(shown) - 1


def test_what_a_line_cites_stands_beside_it():
    """In full; printed one after another, in full where it first stands."""
    shown = open_shown("attention-step", Settings(score="location"))[0]
    places = [k for k, (_, step) in enumerate(shown.steps)
              if step.text == "K = np.eye(h_bar.shape[1], len(align))"]
    texts = [shown.page(place, 2).plain for place in places]
    for text in texts:
        assert "Footnote 5: Of the score location" in text and "Erratum 7: The length of" in text
        assert max(map(len, text[: text.index("│")].splitlines())) <= 80
    told = set()
    again = [shown.page(place, 2, told).plain for place in places]
    assert again[0] == texts[0] and "whose a_t has one length" not in again[1]
    assert "Footnote 5" in again[1] and len(places) == 3  # the backward computes the weights again


def test_a_long_step_scrolls():
    shown = open_shown("lstm", Settings(hidden=8))[0]
    screen = Console(highlight=False, height=12, width=80, file=io.StringIO(), force_terminal=True)
    last = len(shown) - 1
    assert draw(screen, shown, last, "", 5) == 5
    assert "down" in screen.file.getvalue()
    end = draw(screen, shown, last, "", 10_000)
    assert 5 < end < 10_000
    assert "down)" not in screen.file.getvalue().rpartition("\x1b[2J")[2]
