"""Write `stored.json`: the numbers of every configuration, before the code was rewritten.

It ran once, from the root of the commit that added it, whose model code is that of dce07e8:

    PYTHONPATH=.:tests python tests/same_numbers/store.py

The catalogue of that commit says which configurations there are; what of it is stored are plain
options and ids, so that the test needs nothing of it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from grads.case import SHAPES
from grads.catalogue import configurations, rnnsearch
from same_numbers import draws, trees, work

COMMIT = "dce07e8"
SIZES = {"tiny": 6, "real": 30}  # words of a vocabulary; so few that ids repeat
TINY_WORDS, REAL_WORDS = (2, 5), (2, 30)
CLEAR = 1e-6  # of an integer, in words: the distance of every predicted position of local-p
NEVER = 1e6  # a clipping limit that takes the lines that clip and never acts
REAL_SHAPES = {  # source lengths, target lengths without the end marker
    "real": ((20, 13, 7, 1, 17), (23, 9, 15, 0, 4)),
    "real, long": ((40, 40, 37, 31, 40, 22, 40, 9), (39, 39, 39, 20, 39, 30, 11, 39)),
    "real, two": ((64, 51), (39, 33)),
    "real, many": (tuple(range(30, 40)) * 7, (2,) * 70),  # more sentences than a block of windows
}
REAL_LUONG: dict[str, tuple[Any, ...]] = {
    "unit": ("lstm", "rnn", "gru"), "layers": (1, 2, 4), "bidirectional": (False, True),
    "bridge": (False, True), "biases": (True, False), "output_bias": (False, True),
    "attention": ("global", "local-m", "local-p", "none"),
    "score": ("dot", "general", "concat", "location", "additive"),
    "concat_identity": (False, True), "window": (2, 10), "renormalise": (False, True),
    "location_length": (8, 30), "input_feeding": (True, False), "clip_dh": (None, NEVER),
    "reverse": (True, False),
}
REAL_STREAM: dict[str, tuple[Any, ...]] = {
    "unit": ("lstm", "rnn", "gru"), "layers": (1, 2, 4), "biases": (True, False),
    "output_bias": (True, False), "clip_dh": (None, NEVER),
}
LONG = [{"score": score, "attention": attention, "input_feeding": feeding, "layers": 1, "window": 5,
         "concat_identity": identity, "dropout": 0.3}
        for score, identity in (("concat", False), ("concat", True), ("additive", False),
                                ("general", False))
        for attention, feeding in (("global", False), ("global", True), ("local-m", False),
                                   ("local-p", False))]
WIDE = {"input_feeding": False, "layers": 1, "hidden_size": 128}
WINDOWS = [WIDE | {"attention": attention, "window": 16} for attention in ("local-m", "local-p")]
TWO = [*(WIDE | {"score": score} for score in ("concat", "additive")), *WINDOWS]
SEARCHES = [
    ({}, {"beam": 5, "nbest": 5, "length_normalisation": 1.0}),
    ({}, {"beam": 1}),
    ({"score": "dot", "input_feeding": False}, {"beam": 5, "nbest": 3}),
    ({"bidirectional": True, "bridge": True, "score": "concat"}, {"beam": 5}),
    ({"attention": "local-m", "window": 2}, {"beam": 5, "nbest": 2, "length_normalisation": 0.6}),
    ({"attention": "local-p", "window": 2, "score": "additive"}, {"beam": 5, "nbest": 2}),
    ({"attention": "local-p", "window": 2, "renormalise": True}, {"beam": 1}),
    ({"attention": "none", "input_feeding": False, "output_bias": True}, {"beam": 5}),
    ({"score": "location", "location_length": 8}, {"beam": 5}),
    ({"unit": "gru", "input_feeding": False, "layers": 1}, {"beam": 5, "nbest": 5}),
    ({"unit": "rnn", "concat_identity": True, "score": "concat"}, {"beam": 1}),
]
RNN_SEARCHES = [
    ({}, {"beam": 5, "nbest": 5, "length_normalisation": 1.0}), ({"unit": "rnn"}, {"beam": 1}),
    ({"context": "last", "layer": "tanh", "deep_state": "now"}, {"beam": 5}),
]


# --- batches --------------------------------------------------------------------------------------


def batches() -> dict[str, Any]:
    """All batches by name, as lists of ids."""
    found: dict[str, Any] = {}
    for name in ("ragged", "late padding", "full", "one sentence", "one step", "smallest"):
        lengths = SHAPES[name].lengths
        targets = [n - 1 for n in np.roll(lengths, 1).tolist()]
        found[name] = pairs(name, lengths, targets, TINY_WORDS)
        found[f"{name}, stream"] = stream(name, max(lengths), len(lengths), TINY_WORDS)
    for name, (sources, targets) in REAL_SHAPES.items():
        found[name] = pairs(name, sources, targets, REAL_WORDS)
    return found | {"real, stream": stream("real", 24, 5, REAL_WORDS)}


def pairs(name: str, sources: Any, targets: Any, words: tuple[int, int]) -> dict[str, Any]:
    """Sentence pairs of these lengths."""
    random = draws.random_state("batch", name)
    return {side: [random.randint(*words, size=n).tolist() for n in lengths]
            for side, lengths in (("sources", sources), ("targets", targets))}


def stream(name: str, steps: int, count: int, words: tuple[int, int]) -> dict[str, Any]:
    """Ids of a language model and those that they predict."""
    random = draws.random_state("stream", name)
    return {side: random.randint(*words, size=(steps, count)).tolist()
            for side in ("inputs", "targets")}


# --- configurations -------------------------------------------------------------------------------


class Document:
    """What is stored, as it grows."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {
            "commit": COMMIT, "vocabulary": SIZES, "batches": batches(), "weights": [],
            "defaults": {name: asdict(make()) for name, make in trees.CONFIGS.items()},
            "cases": [], "searches": [], "optimizers": {}, "runs": {},
        }
        self.stored = work.Stored(self.content)
        self._known: dict[str, dict[str, Any]] = {}

    def case(
        self, name: str, architecture: str, options: Mapping[str, Any], reverse: bool, real: bool
    ) -> dict[str, Any]:
        """What says how to make a model and its parameters."""
        made = asdict(trees.CONFIGS[architecture](**options))
        defaults, known = self.content["defaults"][architecture], self.content["weights"]
        config = {key: value for key, value in made.items() if value != defaults[key]}
        size = SIZES["real" if real else "tiny"]
        weights = trees.make_model(architecture, made, size, reverse).weights()
        shapes = {weight: list(one.shape) for weight, one in weights.items()}
        if shapes not in known:
            known.append(shapes)
        case = {"name": name, "architecture": architecture, "config": config,
                "weights": known.index(shapes)}
        return case | ({"reverse": True} if reverse else {})

    def add(self, name: str, architecture: str, options: Mapping[str, Any], reverse: bool,
            names: list[str]) -> None:
        """Compute a configuration on the batches of these names, unless that is done already."""
        made = self.case(name, architecture, options, reverse, names[0].startswith(draws.REAL))
        key = json.dumps([architecture, made["config"], reverse])
        if key not in self._known:
            self._known[key] = made | {"numbers": {}}
            self.content["cases"].append(self._known[key])
        case = self._known[key]
        for batch in names:
            if batch not in case["numbers"]:
                self.clear(case, batch)
                case["numbers"][batch] = work.numbers(self.stored, case, batch)

    def clear(self, case: dict[str, Any], batch: str) -> None:
        """Raise unless the windows of local-p would be the same with other rounding."""
        if case["config"].get("attention") != "local-p":
            return
        _, config, size, reverse, ids, parameters = self.stored.system(case, batch)
        model = trees.make_model("luong", config, size, reverse)
        masks = np.random.default_rng(trees.MASKS) if config["dropout"] else None
        made = trees.make_pairs(ids, reverse)
        seen = model.loss(parameters, made, masks)[1].decoder.seen
        for one in seen if isinstance(seen, list) else [seen]:
            places = made.source_lengths[:, None] * one.ratio
            assert (np.abs(places - np.rint(places)) > CLEAR).all(), (case["name"], batch)


def tiny(document: Document) -> None:
    """The old catalogue's whole models, at the shapes at which it checks them."""
    entries = [*configurations.ENTRIES, *configurations.CONFIGURATIONS, *rnnsearch.ENTRIES]
    kinds = {"translator": "luong", "language model": "language model", "rnnsearch": "rnnsearch"}
    for entry in entries:
        if entry.kind not in kinds:
            continue
        architecture = kinds[entry.kind]
        sizes = {"hidden_size": configurations.H, "embedding_size": configurations.E}
        sizes |= {"layer_size": rnnsearch.M} if architecture == "rnnsearch" else {}
        names = [name + ", stream" * (architecture == "language model") for name in entry.shapes]
        reverse = architecture == "luong" and configurations.REVERSE
        document.add(entry.name, architecture, sizes | dict(entry.options), reverse, names)


def real(document: Document) -> None:
    """Configurations of sizes that cross the thresholds of the kernels."""
    sizes = {"hidden_size": 24, "embedding_size": 10}
    for options in pairwise("luong", REAL_LUONG):
        reverse = options.pop("reverse")
        document.add(named(options), "luong", sizes | options, reverse, ["real"])
    for batch, chosen in (("real, long", LONG), ("real, two", TWO), ("real, many", WINDOWS)):
        for options in chosen:
            document.add(f"{named(options)}, {batch}", "luong", sizes | options, False, [batch])
    for options in rnnsearch.models().values():
        document.add(named(options), "rnnsearch", sizes | {"layer_size": 14} | options, False,
                     ["real"])
    document.add("rnnsearch, long", "rnnsearch", sizes | {"layer_size": 14}, True, ["real, long"])
    for options in pairwise("language model", REAL_STREAM):
        document.add(named(options), "language model", sizes | options, False, ["real, stream"])


def named(options: Mapping[str, Any]) -> str:
    """A name that tells a configuration from the others."""
    return "real: " + " ".join(f"{key}={value}" for key, value in options.items())


def pairwise(architecture: str, choices: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Valid configurations with dropout in which every pair of two options' values occurs that can,
    and as many others without dropout."""
    valid = [options for options in every(choices) if fits(architecture, options)]
    covered = [set(combinations(sorted((key, str(value)) for key, value in options.items()), 2))
               for options in valid]
    chosen = []
    for dropout in (0.3, 0.0):
        missing = set().union(*covered)
        while missing:
            best = max(range(len(valid)), key=lambda k: len(covered[k] & missing))
            missing -= covered[best]
            chosen.append({**valid.pop(best), "dropout": dropout})
            del covered[best]
    return chosen


def every(choices: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """All combinations, or 6000 random ones where they are more."""
    if np.prod([len(values) for values in choices.values()]) < 6000:
        yield from (dict(zip(choices, values, strict=True))
                    for values in product(*choices.values()))
        return
    random = draws.random_state("pairwise")
    for _ in range(60000):
        yield {key: values[random.randint(len(values))] for key, values in choices.items()}


def fits(architecture: str, options: Mapping[str, Any]) -> bool:
    """Whether the configuration is valid."""
    plain = {key: value for key, value in options.items() if key != "reverse"}
    try:
        trees.CONFIGS[architecture](**plain)
    except ValueError:
        return False
    return True


# --- the rest -------------------------------------------------------------------------------------


def searches(document: Document) -> None:
    """Greedy and beam search, with parameters that make sentences of several words."""
    sizes = {"hidden_size": 24, "embedding_size": 10}
    chosen = [("luong", sizes, *one) for one in SEARCHES]
    chosen += [("rnnsearch", sizes | {"layer_size": 14}, *one) for one in RNN_SEARCHES]
    for architecture, own, options, how in chosen:
        reverse = architecture == "luong" and "attention" in options
        case = document.case(f"{named(options)}, {how}", architecture, own | options, reverse, True)
        case["search"] = how
        tried = [case | {"draw": draw} for draw in range(20)]
        for one in tried:
            one["found"] = work.hypotheses(document.stored, one, "real")
        document.content["searches"].append(max(tried, key=variety))


def variety(case: Mapping[str, Any]) -> tuple[int, int]:
    """How many of the best hypotheses end with some words before, and how many words there are."""
    best = [nbest[0] for nbest in case["found"]]
    return (sum(one["finished"] and len(one["tokens"]) > 1 for one in best),
            len({token for one in best for token in one["tokens"]}))


def runs(document: Document) -> None:
    """Two small trainings."""
    for kind in ("translator", "language_model"):
        with tempfile.TemporaryDirectory() as folder:
            losses, parameters = work.run(kind, Path(folder))
        document.content["runs"][kind] = {
            "losses": losses,
            "parameters": {name: draws.fingerprint(name, array)
                           for name, array in parameters.items()}}


def rounded(tree: Any) -> Any:
    """Numbers to fifteen digits."""
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [rounded(value) for value in tree]
    return float(f"{tree:.15g}") if isinstance(tree, float) else tree


def written(document: Mapping[str, Any]) -> str:
    """JSON with a line for each case."""
    line = partial(json.dumps, separators=(",", ":"))
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            parts.append(f'"{key}":[\n' + ",\n".join(map(line, value)) + "\n]")
        else:
            parts.append(f'"{key}":{line(value)}')
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    found = Document()
    for part in (tiny, real, searches, runs):
        part(found)
    found.content["optimizers"] = {name: work.trajectory(name) for name in trees.OPTIMIZERS}
    work.STORED.write_text(written(rounded(found.content)), "utf-8")
