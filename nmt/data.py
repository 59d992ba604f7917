"""From a recipe's data section to sentence pairs, whatever the corpus."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nmt.recipe import DataConfig
from nmt.text.cldr import CldrOptions, generate
from nmt.text.corpus import Pair, prepare_pairs, read_parallel
from nmt.text.tokenise import Tokeniser, natural_tokeniser, tokeniser


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences to translate, and what a person wrote: line i belongs to line i."""

    sources: list[list[str]]  # words; an empty list for an empty line
    references: list[str]  # plain text as it stands in the file
    pairs: list[Pair]  # the same as words on both sides, empty lines left out: for perplexity


@dataclass(frozen=True)
class ParallelCorpus:
    """Training pairs and evaluation sets, as words."""

    train: list[Pair]
    dev: EvaluationSet
    test: EvaluationSet | None
    empty: int  # training pairs left out because a side is empty
    too_long: int  # training pairs left out because a side is over the limit


def tokenisers(data: DataConfig) -> tuple[Tokeniser, Tokeniser]:
    """How source and target text become words and text again."""
    languages = (data.source_language, data.target_language)
    if data.corpus == "cldr":
        source, target = (natural_tokeniser(language) for language in languages)
    else:
        source, target = (tokeniser(data.tokenise, language) for language in languages)
    return source, target


def load_corpus(data: DataConfig) -> ParallelCorpus:
    """Generate or read the corpus. Raises UserError as the readers do."""
    return _generated(data) if data.corpus == "cldr" else _from_files(data)


def _generated(data: DataConfig) -> ParallelCorpus:
    """The embedded corpus."""
    corpus = generate(CldrOptions(
        data.source_language, data.target_language, data.train_size, data.dev_size,
        data.test_size, data.seed,
    ))

    def evaluation(pairs: list[Pair], references: list[str]) -> EvaluationSet:
        return EvaluationSet([source for source, _ in pairs], references, pairs)

    return ParallelCorpus(
        corpus.train, evaluation(corpus.dev, corpus.dev_references),
        evaluation(corpus.test, corpus.test_references), 0, 0,
    )


def _from_files(data: DataConfig) -> ParallelCorpus:
    """Line-aligned text files."""
    folder = Path(data.folder)
    cut_source, cut_target = (t.tokenise for t in tokenisers(data))

    def evaluation(source: str, target: str) -> EvaluationSet:
        sources, references = read_parallel(folder / source, folder / target)
        pairs = prepare_pairs(sources, references, None, cut_source, cut_target).pairs
        return EvaluationSet([cut_source(line) for line in sources], references, pairs)

    train = prepare_pairs(
        *read_parallel(folder / data.train_source, folder / data.train_target),
        data.max_length, cut_source, cut_target,
    )
    test = evaluation(data.test_source, data.test_target) if data.test_source else None
    dev = evaluation(data.dev_source, data.dev_target)
    return ParallelCorpus(train.pairs, dev, test, train.empty, train.too_long)
