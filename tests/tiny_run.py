"""A toy language pair in files, a recipe that learns it in a second, and ways to call `nmt`."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml

from nmt.cli import main
from nmt.training.progress import Observer, Progress

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "zero one two three four five six".split()
TARGET = "null eins zwei drei vier fünf sechs".split()  # word for word, one of them not ASCII
RECIPE = {
    "data": {"directory": ".", "train_source": "train.en", "train_target": "train.de",
             "dev_source": "dev.en", "dev_target": "dev.de", "tokenise": "none",
             "source_language": "en", "target_language": "de", "max_length": 6},
    "model": {"layers": 1, "hidden_size": 8, "embedding_size": 8, "dropout": 0.1},
    "train": {"epochs": 2, "batch_size": 8, "log_every": 2, "optimizer": "adam",
              "learning_rate": 0.02},
    "search": {"beam": 2},
    "evaluate": {"bleu_tokenize": "none"},
}
TEXT_RECIPE = {
    "text": {"train": "train.de", "level": "words", "streams": 4, "length": 5},
    "model": {"architecture": "language_model", "layers": 2, "hidden_size": 8, "embedding_size": 8,
              "dropout": 0.1},
    "train": {"epochs": 2, "log_every": 2, "optimizer": "adam", "learning_rate": 0.02},
}


class Crash(Exception):
    """What a bug in an observer would raise."""


class CrashAt(Observer):
    """Raises after the update with this number."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_batch(self, progress: Progress) -> None:
        if progress.step == self.step:
            raise Crash


def write_corpus(directory: Path, pairs: int = 80) -> None:
    """train, dev and test, .en and .de, drawn from a fixed seed."""
    rng = np.random.default_rng(1)
    for name, size in (("train", pairs), ("dev", 8), ("test", 6)):
        lines = [rng.integers(0, len(SOURCE), rng.integers(1, 6)) for _ in range(size)]
        for suffix, words in (("en", SOURCE), ("de", TARGET)):
            text = "".join(" ".join(words[i] for i in line) + "\n" for line in lines)
            (directory / f"{name}.{suffix}").write_text(text, "utf-8")


def write_recipe(path: Path, recipe: dict = RECIPE, **sections: dict) -> Path:
    """The recipe, its paths in the recipe's directory, with changes by section."""
    recipe = copy.deepcopy(recipe)
    for section, changes in sections.items():
        recipe.setdefault(section, {}).update(changes)
    if "data" in recipe:
        recipe["data"]["directory"] = str(path.parent)
    else:
        recipe["text"]["train"] = str(path.parent / recipe["text"]["train"])
    path.write_text(yaml.safe_dump(recipe, sort_keys=False), "utf-8")
    return path


def nmt(*arguments: object) -> int:
    """Call the command line; return its exit status."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def captured(capsys, *arguments: object):
    """Call the command line, which must succeed; return its output, `out` and `err`."""
    capsys.readouterr()
    assert nmt(*arguments) == 0
    return capsys.readouterr()


def printed(capsys, *arguments: object) -> str:
    """The same; return stdout."""
    return captured(capsys, *arguments).out


def lines_of(capsys, *arguments: object) -> list[str]:
    """The same; return the lines of stdout."""
    return printed(capsys, *arguments).splitlines()


def complaint(capsys, *arguments: object) -> str:
    """Call the command line with wrong arguments; return its one line on stderr."""
    capsys.readouterr()
    status = nmt(*arguments)
    error = capsys.readouterr().err
    assert status == 2, error
    assert error.startswith("nmt: ") and error.count("\n") == 1 and error.endswith("\n"), error
    return error[5:-1]


def start(*arguments: object, **settings: object) -> subprocess.Popen:
    """Start `python -m nmt` as a process."""
    environment = {name: value for name, value in os.environ.items()
                   if name != "OPENBLAS_CORETYPE"}  # nmt would warn of it on stderr
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment |= settings.pop("env", {})  # type: ignore[arg-type]
    return subprocess.Popen([sys.executable, "-m", "nmt", *map(str, arguments)],
                            env=environment, **settings)  # type: ignore[call-overload]


def files_in(directory: Path) -> set[str]:
    """Names of everything below a directory."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}
