"""The lessons run, draw, and compare answers: solutions pass, empty and wrong answers do not."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "docs" / "lessons"
LESSONS = sorted(DIRECTORY.glob("[0-9]*.py"))
HELPERS = ("drawing", "exercises", "make_notebooks")
EXERCISES = (1, 2, 3)

matplotlib = pytest.importorskip("matplotlib", reason="the lessons draw: pip install matplotlib")


# --- wrong answers, by lesson and exercise; each is made of the lesson's names ------------------


def slope(x: Any, h: Any, T: Any) -> Any:
    return 1 - np.tanh(T @ np.vstack([x, h])) ** 2


def endless(advance: Any, state: Any, m_x: int, alpha: float) -> list[int]:
    """Algorithm 5 without its line 8."""
    words = [1]
    while len(words) <= alpha * m_x:
        p, state = advance(state, words[-1])
        words.append(int(p.argmax()))
    return words[1:]


def forgetful(advance: Any, state: Any, m_x: int, alpha: float) -> list[int]:
    """Algorithm 5 that feeds the first word again and again."""
    words: list[int] = []
    while len(words) < alpha * m_x:
        p, state = advance(state, 1)
        word = int(p.argmax())
        if word == 1:
            break
        words.append(word)
    return words


def softmax(e: Any) -> Any:
    return np.exp(e - e.max()) / np.exp(e - e.max()).sum()


Answers = list[Callable[[dict[str, Any]], Any]]
WRONG: dict[str, dict[int, Answers]] = {
    "01_rnn": {
        1: [lambda _: lambda dh, x, h, T: T[:, len(x):] @ (slope(x, h, T) * dh),
            lambda _: lambda dh, x, h, T: T[:, len(x):].T @ dh,
            lambda _: lambda dh, x, h, T: T.T @ (slope(x, h, T) * dh)],
        2: [lambda _: 7, lambda _: 5],
        3: [lambda _: lambda d: d["W_e"], lambda _: lambda d: d["W_hy"],
            lambda _: lambda d: (d["W_e"] + d["W_hy"]) / 2],
    },
    "02_lstm": {
        1: [lambda _: lambda dh, dc, o, f, c: ((1 - np.tanh(c)**2) * o * dh,) * 2,
            lambda _: lambda dh, dc, o, f, c: (dc + (1 - np.tanh(c)**2) * o * dh, f * dc)],
        2: [lambda _: 0.993, lambda _: 5.5, lambda _: 0.0],
        3: [lambda _: lambda dc, cache: (cache[1] * dc, cache[0] * dc, (1 - cache[0]) * dc),
            lambda _: lambda dc, cache: ((cache[1] + cache[2]) * dc, cache[0] * dc,
                                         (1 - cache[0]) * dc)],
    },
    "03_gradient_checking": {
        1: [lambda _: 2.0**-26, lambda _: 1e-12, lambda _: 0.01],
        2: [lambda _: np.zeros((4, 4)), lambda _: np.eye(4), lambda _: np.ones((3, 3)),
            lambda s: s["half"]],
        3: [lambda s: s["length"], lambda _: np.linalg.norm, lambda _: lambda v: (v * v).sum()],
    },
    "04_encoder_decoder": {
        1: [lambda _: lambda y: ([*y, 1], [*y, 1]), lambda _: lambda y: ([1, *y], [1, *y]),
            lambda _: lambda y: (y, y)],
        2: [lambda _: ("das", "Haus"), lambda _: ("ein", "Dach"), lambda _: ("Haus", "ein")],
        3: [lambda _: endless, lambda _: forgetful],
    },
    "05_attention": {
        1: [lambda _: lambda e, n: softmax(e), lambda _: lambda e, n: softmax(e[:n]),
            lambda _: lambda e, n: np.exp(e) * (np.arange(len(e))[:, None] < n)
            / np.exp(e[:n]).sum(),
            lambda _: lambda e, n: softmax(np.where(np.arange(len(e))[:, None] < n, e, 0.0))],
        2: [lambda _: lambda a, da: a * da, lambda _: lambda a, da: a * (1 - a) * da,
            lambda _: lambda a, da: da - (a * da).sum()],
        3: [lambda _: lambda dc, de, h, a, W_a: dc @ a.T,
            lambda _: lambda dc, de, h, a, W_a: (W_a.T @ h) @ de.T,
            lambda _: lambda dc, de, h, a, W_a: dc @ a.T - (W_a.T @ h) @ de.T],
    },
    "06_kernels": {
        1: [lambda _: lambda z: 0.5 * np.tanh(z) + 0.5, lambda _: lambda z: np.tanh(0.5 * z)],
        2: [lambda _: lambda da, x: da[-1].T @ x[-1],
            lambda _: lambda da, x: x.reshape(15, -1).T @ da.reshape(15, -1),
            lambda _: lambda da, x: (da.reshape(15, -1).T @ x.reshape(15, -1)) / 15],
        3: [lambda _: lambda T, B, E, H: T * B * 4 * H * (E + H),
            lambda _: lambda T, B, E, H: 2 * T * B * H * (E + H)],
    },
    "07_transformer": {
        1: [lambda _: lambda T: np.arange(T) >= np.arange(T)[:, None],
            lambda _: lambda T: np.arange(T) < np.arange(T)[:, None],
            lambda _: lambda T: np.triu(np.ones((T, T)), 1)],
        2: [lambda _: lambda x_hat, s, d: d / s, lambda _: lambda x_hat, s, d: (d - d.mean()) / s,
            lambda _: lambda x_hat, s, d: (d - x_hat * (x_hat * d).mean()) / s],
        3: [lambda _: lambda dE, Q, K: (dE @ K, dE.T @ Q),
            lambda _: lambda dE, Q, K: (dE @ K / 2, dE.T @ Q),
            lambda _: lambda dE, Q, K: (dE.T @ Q / 2, dE @ K / 2)],
    },
}


# --- running a lesson ---------------------------------------------------------------------------


class Lesson(NamedTuple):
    """A lesson that has run: its names, what it printed, its figures."""

    path: Path
    scope: dict[str, Any]
    printed: str
    figures: list[Any]


@contextlib.contextmanager
def helpers() -> Iterator[None]:
    """The lessons' own modules can be imported, and leave nothing behind."""
    before = list(sys.path)
    sys.path.insert(0, str(DIRECTORY))
    try:
        yield
    finally:
        sys.path[:] = before
        for name in HELPERS:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def tool() -> Any:
    with helpers():
        import make_notebooks

        return make_notebooks


@pytest.fixture(scope="module", params=LESSONS, ids=lambda path: path.stem)
def lesson(request: pytest.FixtureRequest) -> Iterator[Lesson]:
    import matplotlib.pyplot as plt

    matplotlib.use("Agg", force=True)
    plt.close("all")
    path, printed = request.param, io.StringIO()
    scope: dict[str, Any] = {"__name__": "__main__"}
    with helpers(), plt.rc_context(), threadpool_limits(1):  # put back what the lesson sets
        with contextlib.redirect_stdout(printed):
            exec(compile(path.read_text("utf-8"), path.name, "exec"), scope)
        yield Lesson(path, scope, printed.getvalue(), [plt.figure(n) for n in plt.get_fignums()])
    plt.close("all")


def test_there_are_seven() -> None:
    assert [path.stem for path in LESSONS] == sorted(WRONG)
    readme = (DIRECTORY / "README.md").read_text("utf-8")
    assert all(f"({path.name})" in readme for path in LESSONS)


def test_figures_show_something(lesson: Lesson) -> None:
    assert len(lesson.figures) >= 2
    for figure in lesson.figures:
        figure.set_dpi(40)
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 10
        for axes in figure.axes:
            assert axes.has_data() and axes.get_title()
            lines = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
            assert all(np.isfinite(y).all() for y in lines)


# --- exercises ----------------------------------------------------------------------------------


def ask(lesson: Lesson, number: int, answer: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """The verdict that a reader sees; the check returns the same as True or False."""
    capsys.readouterr()
    passed = lesson.scope[f"check_exercise_{number}"](answer)
    said = capsys.readouterr().out
    assert said.startswith(f"Exercise {number}: {'right' if passed else 'not yet'}")
    assert passed or "\n  Hint: " in said
    return "right" if passed else said


def test_a_reader_sees_three_open_exercises_and_three_solutions(lesson: Lesson) -> None:
    for number in EXERCISES:
        assert f"Exercise {number}: not yet" in lesson.printed
        assert f"Exercise {number}: right." in lesson.printed
    assert "check_exercise_4" not in lesson.scope
    assert "raised" not in lesson.printed  # an empty answer gets a hint, not an error message


@pytest.mark.parametrize("number", EXERCISES)
def test_solutions_pass(
    lesson: Lesson, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(lesson, number, lesson.scope[f"solution_{number}"], capsys) == "right"


@pytest.mark.parametrize("number", EXERCISES)
def test_wrong_answers_are_refused(
    lesson: Lesson, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [wrong(lesson.scope) for wrong in WRONG[lesson.path.stem][number]]
    for answer in [None, lesson.scope[f"answer_{number}"], *made]:
        assert ask(lesson, number, answer, capsys) != "right", answer


def test_an_answer_that_raises_is_refused_with_its_error(
    lesson: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("mine")

    functions = [n for n in EXERCISES if callable(lesson.scope[f"solution_{n}"])]
    assert functions
    for number in functions:
        assert "ZeroDivisionError: mine" in ask(lesson, number, broken, capsys)


# --- form, scripts and notebooks ----------------------------------------------------------------


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_form(path: Path, tool: Any) -> None:
    made = tool.cells(path.read_text("utf-8"))
    assert made[0]["source"].startswith(f"# {int(path.stem[:2])}. ")
    turns = [k for k, cell in enumerate(made) if cell["source"].startswith("# Your turn")]
    solutions = [k for k, cell in enumerate(made) if "solution" in cell["metadata"].get("tags", [])]
    assert len(turns) == len(solutions) == 3
    for turn, solution in zip(turns, solutions, strict=True):
        assert solution == turn + 2
        assert made[turn + 1]["source"].startswith("### Solution")
        assert made[solution]["metadata"]["jupyter"] == {"source_hidden": True}
    for cell in made:
        assert cell["source"].strip()
        if cell["cell_type"] == "markdown":
            assert cell["source"].count("$") % 2 == 0
        else:
            compile(cell["source"], path.name, "exec")


def test_notebooks_are_the_lessons(tool: Any, tmp_path: Path) -> None:
    tmp_path /= "new"  # main makes it
    tool.main(tmp_path)
    assert {p.stem for p in tmp_path.iterdir()} == {p.stem for p in LESSONS}
    for path in LESSONS:
        made = json.loads((tmp_path / f"{path.stem}.ipynb").read_text("utf-8"))
        assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
        assert set(made) == {"nbformat", "nbformat_minor", "metadata", "cells"}
        ids = [cell["id"] for cell in made["cells"]]
        assert len(set(ids)) == len(ids)
        again = []
        for cell in made["cells"]:
            keys = {"id", "cell_type", "metadata", "source"}
            if cell["cell_type"] == "markdown":
                lines = [f"# {line}".rstrip() for line in cell["source"].split("\n")]
                mark = "# %% [markdown]"
            else:
                keys |= {"execution_count", "outputs"}
                lines = cell["source"].split("\n")
                tags = cell["metadata"].get("tags")
                mark = "# %%" + (f" tags={json.dumps(tags)}" if tags else "")
            assert set(cell) == keys
            again.append("\n".join([mark, *lines]))
        given = path.read_text("utf-8")
        assert "".join("\n".join(again).split()) == "".join(given.split())


def test_notebook_refuses_text_before_the_first_cell(tool: Any) -> None:
    with pytest.raises(ValueError, match=r"expected it to begin with # %%, got 'x = 1'"):
        tool.cells("x = 1\n# %%\ny = 2\n")


def test_runs_as_a_script() -> None:
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, str(LESSONS[0])], env=environment, capture_output=True,
                         text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert "Exercise 3: right." in run.stdout
