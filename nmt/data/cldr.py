"""The embedded corpus: translations made from Unicode CLDR (through Babel), without a download.

The corpus is small and narrow: dates, durations, measures, money, names of countries and languages.
But its translations are correct and its difficulties are real: word order, agreement, plural forms
and about a thousand names, in any two languages of CLDR. A score on it shows that a system learns
this corpus, and says nothing about news text.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backend.errors import UserError, check_least
from nmt.console.progress import Tell, told
from nmt.data.cldr_phrases import PhraseBook, parse_locale
from nmt.data.corpus import Pair, write_lines
from nmt.data.tokenise import natural_tokeniser
from nmt.files import make_directory

DRAWS = 30  # the most draws per phrase asked for, after which there are too few new phrases


@dataclass(frozen=True)
class CldrOptions:
    """Which corpus to generate; the same options give the same corpus, for one version of CLDR.

    source_locale, target_locale: CLDR identifiers such as en, pt_BR or zh_Hans.
    train, dev, test: numbers of phrases. seed: the seed of the random generator.
    """

    source_locale: str = "en"
    target_locale: str = "fr"
    train: int = 20000
    dev: int = 500
    test: int = 500
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, 0, "train", "dev", "test", "seed")


@dataclass(frozen=True)
class Corpus:
    """Tokenised phrases in three sets that have no source in common.

    The references are the target text before tokenisation, for scores on plain text.
    """

    source_locale: str
    target_locale: str
    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    dev_references: list[str]
    test_references: list[str]


def generate(options: CldrOptions) -> Corpus:
    """Generate the corpus: random phrases, each source text once.

    The test set is drawn first, then dev, then train, so that the evaluation sets stay the same
    when more training phrases are asked for. Of phrases with equal source words only the first is
    kept. Words are those of Moses, or characters in scripts without spaces. Clauses recur: a test
    phrase is a new combination, but may have clauses that were trained on.

    Raises UserError for an unknown locale, equal locales, or more phrases than there are.
    """
    source, target = parse_locale(options.source_locale), parse_locale(options.target_locale)
    if source == target:
        raise UserError(f"locales: expected two different ones, got {source} twice")
    size = options.test + options.dev + options.train
    with told("phrases") as tell:
        pairs, references = _draw_distinct(PhraseBook(source, target), size, options.seed, tell)
    dev, train = options.test, options.test + options.dev  # where each set begins
    return Corpus(
        source_locale=str(source),
        target_locale=str(target),
        train=pairs[train:],
        dev=pairs[dev:train],
        test=pairs[:dev],
        dev_references=references[dev:train],
        test_references=references[:dev],
    )


def _draw_distinct(
    book: PhraseBook, size: int, seed: int, tell: Tell
) -> tuple[list[Pair], list[str]]:
    """Phrases with distinct source words, and their target texts."""
    rng = np.random.default_rng(seed)
    cut_source = natural_tokeniser(book.source.language).tokenise
    cut_target = natural_tokeniser(book.target.language).tokenise
    seen: set[str] = set()  # source texts, plain and tokenised
    pairs: list[Pair] = []
    references: list[str] = []
    draws = 0
    while len(pairs) < size:
        tell(len(pairs), size)
        draws += 1
        if draws > DRAWS * size + 1000:
            raise UserError(f"expected {size} phrases, {book.source} gives only {len(pairs)}")
        source_text, target_text = book.draw(rng)
        if source_text in seen:
            continue
        source = cut_source(source_text)
        tokenised = " ".join(source)
        if tokenised not in seen:
            pairs.append((source, cut_target(target_text)))
            references.append(target_text)
        seen |= {source_text, tokenised}
    return pairs, references


def write(corpus: Corpus, directory: str | Path) -> list[Path]:
    """Write the corpus as text files, one phrase a line, words separated by spaces.

    The files are train.en, train.fr, dev.en and so on, by locale, and the plain references
    dev.reference.fr and test.reference.fr. The directory is made if needed. Returns the paths.
    Raises UserError if a file cannot be written.
    """
    directory = Path(directory)
    make_directory(directory)
    contents: dict[str, list[str]] = {}
    for name, pairs in (("train", corpus.train), ("dev", corpus.dev), ("test", corpus.test)):
        contents[f"{name}.{corpus.source_locale}"] = [" ".join(source) for source, _ in pairs]
        contents[f"{name}.{corpus.target_locale}"] = [" ".join(target) for _, target in pairs]
    contents[f"dev.reference.{corpus.target_locale}"] = corpus.dev_references
    contents[f"test.reference.{corpus.target_locale}"] = corpus.test_references
    for file, lines in contents.items():
        write_lines(directory / file, lines)
    return [directory / file for file in contents]
