"""The data of the explorer's pages, made once for all tests, and looking things up in it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from shared import made_once

from grads.stepper.explorer import build
from grads.stepper.explorer.models import Trained, open_model
from nmt.data.vocabulary import Vocabulary
from nmt.recipe.file import load_recipe, save_recipe
from nmt.training import checkpoint
from nmt.training.run import BEST

PAIR = "die Seite ||| a page"
SHORTER: dict[str, dict[str, Any]] = {  # settings of examples whose runs have 1,200 steps and more
    **{name: {"layers": 1} for name in ("multitask", "hybrid", "hybrid-same")},
    **{name: {"layers": 1, "sentence": PAIR} for name in ("lexical", "lexicon")},
    "two-sources": {"layers": 1, "sentence": "die Seite ||| la page ||| a page"},
    "simplified": {"sentence": PAIR}}
STATUSES = {"verified", "partial", "same", "zero", "share"}  # in a right backward pass


@cache
def data(name: str, seed: int | None = 1) -> dict[str, Any]:
    """What `build` makes of a derivation's own example, with random weights, or with those of the
    package's own model where `seed` is None. The longest examples are shortened."""
    return made_once(f"explored-{name}-{seed}",
                     lambda: build(name, seed=seed, **SHORTER.get(name, {})))


def element(page: str, name: str) -> Any:
    """The content of an element of the page."""
    match = re.search(rf'id="{name}">([^<]*)<', page)
    assert match is not None
    return json.loads(gzip.decompress(base64.b64decode(match[1])))


def values(name: str, i: int, variant: dict[str, Any] | None = None) -> np.ndarray:
    """The numbers of a tensor, in a variant if given, as an array of its shape."""
    return values_of(data(name), i, variant)


def values_of(d: dict[str, Any], i: int, variant: dict[str, Any] | None = None) -> np.ndarray:
    """The same of any page's data."""
    tensors = d["tensors"]
    shape = tensors[i]["shape"]
    changed = {} if variant is None else variant["values"]
    while i not in changed and tensors[i]["same_as"] is not None:
        i = tensors[i]["same_as"]
    return np.array(changed.get(i, tensors[i]["value"]), float).reshape(shape)


def step_of(d: dict[str, Any], text: str, **loops: int) -> int:
    """The number of the first step with that text, in those iterations of loops."""
    return next(i for i, step in enumerate(d["steps"]) if step["text"].startswith(text)
                and loops.items() <= dict(step["loops"]).items())


def checked(path: Path, sentence: str, target: str | None) -> tuple[Trained, float]:
    """The derivation that shows a model, and its loss, after every gradient was verified."""
    model = open_model(path, sentence, target, "best")
    run = model.derivation.run()
    verifications = run.verifications(central=False, most=1)
    errors = [check.error for check in verifications if check.error is not None]
    assert len(errors) > 50 and max(errors) < 1e-10
    assert {check.status for check in verifications} <= STATUSES
    return model, float(run.loss(run.forward.result))


def fresh(path: Path, recipe: dict[str, Any], kind: Any, recipes: Any,
          known: Sequence[str] = ("one", "two", "three")) -> Any:
    """A run directory with a model that has trained for nothing, and its system, opened.

    Arguments: recipe, its sections; kind, of system, and recipes, its class of recipe; known, its
    words.
    """
    path.mkdir()
    (path / "r.yaml").write_text(yaml.safe_dump(recipe), "utf-8")
    loaded = load_recipe(recipes, path / "r.yaml")
    words = Vocabulary.build([[word] for word in known])
    characters = Vocabulary.build([list("onetwhr")])
    system = kind.create(loaded, {name: words if name in kind.names else characters
                                  for name in kind.names_of(loaded)})
    for name, vocabulary in system.vocabularies.items():
        vocabulary.write(path / f"{name}.vocab")
    save_recipe(loaded, path / "recipe.yaml")
    rng = np.random.default_rng(1)
    arrays = {f"parameters/{name}": rng.normal(scale=0.5,
                                               size=parameter.shape).astype(parameter.dtype)
              for name, parameter in system.parameters.items()}
    checkpoint.save(path / BEST, arrays, {"model": system.metadata()})
    return kind.open(path)
