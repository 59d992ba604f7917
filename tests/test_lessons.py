"""The lessons run, draw, and compare answers: solutions pass, empty and wrong answers do not."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from tiny_run import nmt, write_corpus, write_recipe

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "docs" / "lessons"
LESSONS = sorted(DIRECTORY.glob("[0-9]*.py"))
LOG = DIRECTORY / "training_log.py"
HELPERS = ("drawing", "exercises", "make_notebooks", "mistakes", "tasks")
EXERCISES = (1, 2, 3)

matplotlib = pytest.importorskip("matplotlib", reason="the lessons draw: pip install matplotlib")


# Values that show the mistakes which are recognised by their value, in the order of the file
VALUES: dict[str, dict[int, list[Any]]] = {
    "02_lstm": {2: [0.993, 0.0, -4.97]},
    "03_gradient_checking": {1: [1e-8, -5.0, 1e-12, 0.01],
                             2: [np.arange(16.0).reshape(4, 4) / 10, np.eye(4)]},
    "08_gru": {2: [4.97, 0.0069, 0.9931, 0.0]},
}
# Answers that no mistake of docs/lessons/mistakes.py describes: they get the general hint
OTHERS: dict[str, dict[int, list[Any]]] = {
    "01_rnn": {2: [3, "six"], 1: [lambda *arguments: np.zeros((8, 1)), 3.0]},
    "02_lstm": {1: [lambda dh, dc, o, f, c: (dc, dc, dc)], 2: [5.5, "five"]},
    "03_gradient_checking": {2: [np.ones((3, 3))]},
    "04_encoder_decoder": {2: [("ein", "Dach"), ("Haus", "ein")]},
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


def test_the_readme_lists_them() -> None:
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
    """The verdict that a reader sees."""
    capsys.readouterr()
    lesson.scope[f"check_exercise_{number}"](answer)
    said = capsys.readouterr().out
    assert said.startswith((f"Exercise {number}: not yet: ", f"Exercise {number}: right.\n"))
    return "right" if said == f"Exercise {number}: right.\n" else said


def test_a_reader_sees_three_open_exercises_and_three_solutions(lesson: Lesson) -> None:
    for number in EXERCISES:
        assert f"Exercise {number}: not yet" in lesson.printed
        assert f"Solution {number}: right." in lesson.printed
        assert f"Exercise {number}: right." not in lesson.printed
    assert "check_exercise_4" not in lesson.scope
    assert "raised" not in lesson.printed  # an empty answer gets a hint, not an error message


@pytest.mark.parametrize("number", EXERCISES)
def test_solutions_pass(
    lesson: Lesson, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(lesson, number, lesson.scope[f"solution_{number}"], capsys) == "right"


@pytest.mark.parametrize("number", EXERCISES)
def test_a_hint_is_that_of_the_mistake(
    lesson: Lesson, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    mistakes = lesson.scope["MISTAKES"][number]
    values = VALUES.get(lesson.path.stem, {}).get(number) or [wrong for _, wrong in mistakes]
    for (hint, _), wrong in zip(mistakes, values, strict=True):
        assert ask(lesson, number, wrong, capsys).endswith(f"\n  Hint: {hint}\n")
    hints = [hint for hint, _ in mistakes]
    for wrong in OTHERS.get(lesson.path.stem, {}).get(number, []):
        said = ask(lesson, number, wrong, capsys)
        assert "\n  Hint: " in said and not any(hint in said for hint in hints), wrong


@pytest.mark.parametrize("number", EXERCISES)
def test_there_is_no_hint_before_the_first_try(
    lesson: Lesson, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for empty in (None, lesson.scope[f"answer_{number}"]):
        assert "Hint" not in ask(lesson, number, empty, capsys)


def test_a_list_will_do_for_a_tuple() -> None:
    with helpers():
        from exercises import difference

        assert difference([1.0, [2.0, 3.0]], (1.0, np.array([2.0, 3.0]))) is None
        for few, got in (([1.0], "1"), (1.0, "one float"), ({"a": 1.0}, "one dict")):
            said = difference(few, (1.0, 2.0)) or ""
            assert said.startswith(f"expected 2 results, got {got}\n  Hint: return 2 results")


def test_a_hint_is_by_the_kind_of_the_fault() -> None:
    x = np.array([[1.0], [2.0]])
    with helpers():
        from exercises import difference, verdict, wrong_form

        from grads.check import check_gradients

        for answer, expected, hint in (
            (-x, x, "its sign is reversed"),
            ((x, 2 * x), (2 * x, x), "this would be right as result 2"),
            (x.T, x, "its numbers may be right, but it has another shape"),
            (x @ x.T, x, "a column has met a row, which makes a matrix"),
            (x * np.inf, x, "an exp overflows, or zero is divided by zero"),
        ):
            assert (difference(answer, expected) or "").endswith(f"\n  Hint: {hint}")
        for several in ((x, x[0]), (x, x)):
            said = wrong_form(several, x) or ""
            assert said.endswith("alone, of shape (2, 1), got a tuple of 2")
        assert wrong_form([1.0, 2.0], x[:, 0]) is None
        assert difference(["a"], np.ones(1)) == "expected the result in numbers, got ['a']"
        assert "to be False at (0,), got True" in (difference([True], np.array([False])) or "")
        assert "to be 123456789, got 123456788" in (difference(123456788.0, 123456789) or "")
        assert (wrong_form({"x": x}, x) or "").endswith("as an array of shape (2, 1), got a dict")
        assert wrong_form((x, None), (x, x)) == "one result is None"
        said = wrong_form((x.T, x), (x, x.T)) or ""
        assert said.endswith("\n  Hint: result 2 has this shape")
        reversed_sign = check_gradients(lambda v: (v * v).sum(), [x], [-2 * x])
        assert "\n  Hint: it has the reversed sign" in (verdict(reversed_sign) or "")


def test_a_hint_is_not_the_solution() -> None:
    """Where the checker can read an answer's source, it says what to write instead."""
    told = ("it is right with `c - h` in place of `c` in line 4", "it has the reversed sign")
    with helpers():
        from exercises import verdict

        for hints, last in ((told, told[1]), (told[:1], "not 2")):
            row = SimpleNamespace(name="f", place=(0,), numeric=1.0, analytic=2.0, hints=hints)
            report: Any = SimpleNamespace(ok=False, findings=(), wrong=(row,))
            said = verdict(report) or ""
            assert said.endswith(last) and "right with" not in said


def test_an_answer_that_raises_is_refused_with_its_error(
    lesson: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("mine")

    functions = [n for n in EXERCISES if callable(lesson.scope[f"solution_{n}"])]
    assert functions
    for number in functions:
        said = ask(lesson, number, broken, capsys)
        assert "ZeroDivisionError: mine" in said and "Hint" not in said


def test_an_answer_of_another_form_is_told_the_form(capsys: pytest.CaptureFixture[str]) -> None:
    with helpers():
        from exercises import NUMBER, exercise

        number = exercise(1, "think", form=NUMBER)(
            lambda answer: None if int(answer) == 6 else "not six")
        pair = exercise(1, "think", form="a pair")(
            lambda answer: None if answer[0] + answer[1] == 6 else "not six")
        function = exercise(1, "think")(lambda answer: None if answer() == 6 else "not six")
        predicted = exercise(1, "think", [("a mistake", lambda value: 6)])(lambda answer: "no")
    for check, answer, said in (
        (number, 6, "right."), (number, [6], "right."), (number, np.array([6]), "right."),
        (number, 7, "not six.\n  Hint: think."),
        (number, "6", "expected a number, got '6'.\n  Hint: leave out the quotes."),
        (number, (6, 7), "expected a number, got (6, 7).\n  Hint: think."),
        (number, True, "expected a number, got True."),
        (number, abs, "expected a number, got the function abs."),
        (pair, [1, 5], "right."), (pair, "ab", "expected a pair, got 'ab'.\n  Hint: think."),
        (pair, 6, "expected a pair, got 6.\n  Hint: think."),
        (function, lambda: 6, "right."),
        (predicted, 6, "expected a function, got 6.\n  Hint: keep the line with `def`."),
        (function, 6, "expected a function, got 6.\n  Hint: keep the line with `def`."),
    ):
        check(answer)
        assert said in capsys.readouterr().out, answer


def test_only_an_error_of_the_reader_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    with helpers():
        from exercises import exercise

        check = exercise(1, "think")(lambda answer: None if len(answer()) == 6 else "not six")
    check(lambda: 6)
    said = capsys.readouterr().out
    assert "expected a result of another kind than 6.\n  Hint: think." in said
    check(lambda: [][0])
    assert "it raised IndexError: list index out of range.\n" in capsys.readouterr().out


# --- form, scripts and notebooks ----------------------------------------------------------------


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_form(path: Path, tool: Any) -> None:
    cells = tool.cells(path.read_text("utf-8"))
    assert cells[0]["source"].startswith(f"# {int(path.stem[:2])}. ")
    turns = [k for k, cell in enumerate(cells) if cell["source"].startswith("# Your turn")]
    solutions = [k for k, cell in enumerate(cells)
                 if "solution" in cell["metadata"].get("tags", [])]
    assert len(turns) == len(solutions) == 3
    for turn, solution in zip(turns, solutions, strict=True):
        assert solution == turn + 2
        check = cells[turn - 1]  # it may show the answer, and its first line is seen
        assert check["source"].startswith("# The check of exercise ")
        assert check["metadata"]["jupyter"] == {"source_hidden": True}
        assert cells[solution]["source"].startswith("# The solution of exercise ")
        assert cells[turn + 1]["source"].startswith("### Solution")
        assert cells[solution]["metadata"]["jupyter"] == {"source_hidden": True}
    for cell in cells:
        assert cell["source"].strip()
        if cell["cell_type"] == "markdown":
            assert cell["source"].count("$") % 2 == 0
        else:
            compile(cell["source"], path.name, "exec")
            assert max(map(len, cell["source"].split("\n"))) <= 80  # fits the page


def test_notebooks_are_the_lessons(tool: Any, tmp_path: Path) -> None:
    tmp_path /= "new"  # main makes it
    tool.main(tmp_path)
    notebooks = [*LESSONS, LOG]
    assert {p.stem for p in tmp_path.iterdir()} == {p.stem for p in notebooks}
    for path in notebooks:
        notebook = json.loads((tmp_path / f"{path.stem}.ipynb").read_text("utf-8"))
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        assert set(notebook) == {"nbformat", "nbformat_minor", "metadata", "cells"}
        ids = [cell["id"] for cell in notebook["cells"]]
        assert len(set(ids)) == len(ids)
        again = []
        assert "pip" in notebook["cells"].pop(1)["source"]  # the setup, which the lesson has not
        for cell in notebook["cells"]:
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
        lesson = path.read_text("utf-8")
        assert "".join("\n".join(again).split()) == "".join(lesson.split())


def test_notebook_refuses_text_before_the_first_cell(tool: Any) -> None:
    with pytest.raises(ValueError, match=r"expected it to begin with # %%, got 'x = 1'"):
        tool.cells("x = 1\n# %%\ny = 2\n")


def test_the_notebook_of_the_log_draws_a_run(tmp_path: Path, monkeypatch: Any) -> None:
    """It trains nothing where there is a run, and finds its loss and BLEU."""
    pytest.importorskip("pandas", reason="pandas (extra `log`)")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg", force=True)
    write_corpus(tmp_path)
    assert nmt("train", write_recipe(tmp_path / "r.yaml"), "--output", "runs/log-example") == 0
    records = [json.loads(line) for line in
               (tmp_path / "runs/log-example/log.jsonl").read_text("utf-8").splitlines()]
    plt.close("all")
    with helpers(), plt.rc_context():
        exec(compile(LOG.read_text("utf-8"), LOG.name, "exec"), {"__name__": "__main__"})
    loss, bleu = plt.figure(1).axes
    training, validation = loss.get_lines()
    assert training.get_ydata().tolist() == pytest.approx(
        [record["loss"] for record in records if record["event"] == "update"])
    scores = [record["scores"] for record in records if record["event"] == "epoch"]
    assert np.exp(validation.get_ydata()) == pytest.approx([score["perplexity"]
                                                            for score in scores])
    assert bleu.get_lines()[0].get_ydata().tolist() == [score["bleu"] for score in scores]
    plt.close("all")


def test_runs_as_a_script() -> None:
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, str(LESSONS[0])], env=environment, capture_output=True,
                         text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert "Solution 3: right." in run.stdout
