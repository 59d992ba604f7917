"""The papers' main results, what the small recipes gave, and the verdict that two seeds allow.

The claims stand in `claims.yaml` beside this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from statistics import fmean
from typing import Any

import yaml

AS_PAPER, NOT_AS_PAPER, NOT_DECIDED = "as in the paper", "not as in the paper", "not decided"
SEEDS = 2
PAGE = """\
# Claims: the papers' main results, tried

Of {count} claims that one system is better than another, {as_paper} come out here as in the paper
and {not_as_paper} the other way round; {not_decided} are not decided. The paper's
corpora and models are large and ours are small, so a figure of the paper cannot be compared with
one of ours; only the order of the two systems can. "a / b" are seeds 1 and 2, "a (b)" is the mean
of both with its sample standard deviation, and a single figure is of one seed.

A claim is decided if both systems have two seeds and their means differ by more than the two seeds
of either system. Two seeds are few: this is no test of significance.

    nmt reproduce                                     # this list
    nmt reproduce NAME --data DIR --output runs/NAME  # train and evaluate
    nmt reproduce NAME --dry-run                      # print its commands

DIR has Multi30k's tokenised files. Claims about parsing also need GUM's trees, DIR/gum/*.ptb;
`transfer`, `captions` and `captions-too-many` need no files. Minutes are the CPU time
of training all runs on one thread; for some it is that of one epoch, times the epochs.
"""
TABLE = """
## {verdict}

| name | claim | the paper | here | minutes |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Result:
    """A system of a claim: its row on the claim's page, its recipe, and its figures as written
    there."""

    row: str
    recipe: str
    figures: str

    @property
    def seeds(self) -> tuple[float, ...]:
        """The figure of each seed. Where the page has `mean (sample standard deviation)` of two
        seeds, their two figures are computed from it."""
        if match := re.fullmatch(r"(\S+) \((\S+)\)", self.figures):
            mean, deviation = map(float, match.groups())
            half = deviation / SEEDS**0.5
            return mean - half, mean + half
        return tuple(map(float, self.figures.split(" / ")))


@dataclass(frozen=True)
class Claim:
    """A paper's claim that a system scores higher than another, with what was found here.

    minutes: of training. script: sh commands that train and evaluate.
    """

    name: str
    claim: str
    source: str
    paper: str
    page: str
    better: Result
    worse: Result
    minutes: int
    script: str

    @property
    def verdict(self) -> str:
        """AS_PAPER or NOT_AS_PAPER if the systems' means differ by more than the two seeds of
        either system do; otherwise NOT_DECIDED."""
        seeds = self.better.seeds, self.worse.seeds
        difference = fmean(seeds[0]) - fmean(seeds[1])
        spread = max(max(figures) - min(figures) for figures in seeds)
        if min(map(len, seeds)) < SEEDS or abs(difference) <= spread:
            return NOT_DECIDED
        return AS_PAPER if difference > 0 else NOT_AS_PAPER

    @property
    def here(self) -> str:
        """The figures of both systems."""
        return f"{self.better.figures} against {self.worse.figures}"

    @property
    def systems(self) -> tuple[str, ...]:
        """The recipes of both systems, without repetition."""
        return tuple(dict.fromkeys((self.better.recipe, self.worse.recipe)))


def load_claims() -> dict[str, Claim]:
    """All claims by their names, in the order of the papers."""
    values = yaml.safe_load((files("nmt") / "claims.yaml").read_text("utf-8"))
    return {name: _claim(name, value, values["scripts"])
            for name, value in values["claims"].items()}


def _claim(name: str, value: Mapping[str, Any], scripts: Mapping[str, str]) -> Claim:
    systems = {side: Result(**value[side]) for side in ("better", "worse")}
    script = scripts.get(value["script"], value["script"])
    return Claim(**{**value, **systems, "name": name, "script": script})


def page(claims: Mapping[str, Claim]) -> str:
    """docs/claims.md."""
    tables = {verdict: [claim for claim in claims.values() if claim.verdict == verdict]
              for verdict in (AS_PAPER, NOT_AS_PAPER, NOT_DECIDED)}
    counts = map(len, tables.values())
    head = PAGE.format(count=len(claims), **dict(zip(("as_paper", "not_as_paper", "not_decided"),
                                                     counts, strict=True)))
    return head + "".join(TABLE.format(verdict=verdict.capitalize()) + "".join(map(_line, rows))
                          for verdict, rows in tables.items() if rows)


def _line(claim: Claim) -> str:
    recipes = ", ".join(f"[{recipe.rpartition('/')[2]}](../nmt/recipes/{recipe}.yaml)"
                        for recipe in claim.systems)
    return (f"| `{claim.name}` | {claim.claim} {recipes} | {claim.source}: {claim.paper} | "
            f"[{claim.here}]({claim.page}) | {claim.minutes} |\n")
