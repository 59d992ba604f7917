"""The page of systems links every recipe of the papers, with what its header reports."""

import re
from collections import Counter
from pathlib import Path

from families import for_all

from nmt.claims import AS_PAPER, NOT_AS_PAPER, NOT_DECIDED, load_claims

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "nmt" / "recipes"
PAGE = (ROOT / "docs" / "systems.md").read_text("utf-8")
LINK = re.compile(r"\]\(\.\./(nmt/recipes/[^)]+\.yaml)\)")
ROWS = [line.strip("|").split("|") for line in PAGE[PAGE.index("\n## "):].split("\n")
        if line.startswith("| ")]
OF_PAPERS = sorted(str(path.relative_to(ROOT)) for pattern in
                   ("thesis*/**/*.yaml", "copy-small/*.yaml", "rnnsearch-*.yaml",
                    "rnnencdec-*.yaml")
                   for path in RECIPES.glob(pattern))
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?!\w)")


def figures(text: str) -> set[str]:
    """Decimal numbers, but for those of tables, figures and sections."""
    named = r"(Tables?|Figures?|sections?) [\d.]+( and [\d.]+)?"
    return set(NUMBER.findall(re.sub(named, "", text)))


def reported(recipe: str) -> set[str]:
    """Perplexities and BLEU of the sentence `Reported ...` in a recipe's header."""
    header = re.match(r"(#.*\n)+", (ROOT / recipe).read_text("utf-8"))
    assert header, recipe
    text = re.sub(r"\n# ", " ", header.group())
    sentence = re.search(r"Reported.*?(\.\)? [A-Z]|\.?\)? nmt |$)", text)
    return figures(sentence.group()) if sentence else set()


def test_the_first_paragraph_counts_the_claims() -> None:
    verdicts = Counter(claim.verdict for claim in load_claims().values())
    assert (f"Of the papers' {verdicts.total()} main results, {verdicts[AS_PAPER]} come out as in "
            f"the paper, {verdicts[NOT_AS_PAPER]} do not, and {verdicts[NOT_DECIDED]} are not "
            "decided") in " ".join(PAGE.split())


def test_links_exist() -> None:
    linked = set(LINK.findall(PAGE))
    assert linked and not [path for path in linked if not (ROOT / path).is_file()]


def test_every_recipe_of_the_papers_is_linked() -> None:
    assert len(OF_PAPERS) > 40 and not set(OF_PAPERS) - set(LINK.findall(PAGE))


@for_all(OF_PAPERS, str)
def test_reported_figures(recipe: str) -> None:
    """They are in the rows that link the recipe; a few recipes are not a row of a paper."""
    rows = " ".join("|".join(row[:-1]) for row in ROWS if f"../{recipe})" in "".join(row))
    expected = reported(recipe)
    assert expected or Path(recipe).stem in ("global-additive", "global-concat-full",
                                             "noalign-reverse", "copyable-reverse",
                                             "posall-reverse", "german", "english")
    assert not expected - figures(rows)


def test_figures_here() -> None:
    """No cell is empty; its numbers stand on one line of a page of finished runs."""
    runs = [figures(line) for page in ("docs/results.md", "docs/attention.md", "docs/rare-words.md",
                                       "docs/pruning.md", "docs/multi-task.md",
                                       "docs/transformer.md", "docs/transfer.md")
            for line in (ROOT / page).read_text("utf-8").split("\n")]
    here = [row[-1].strip() for row in ROWS]
    assert len(here) > 130 and all(here)
    assert not [cell for cell in here if not any(figures(cell) <= line for line in runs)]
