"""The embedded corpus: honest, distinct, repeatable and nearly closed."""

import re
from datetime import date
from decimal import Decimal
from itertools import chain

import numpy as np
import pytest
from babel import Locale

from backend.errors import UserError
from nmt.data.cldr import CldrOptions, Corpus, generate, write
from nmt.data.cldr_phrases import (
    AMOUNTS,
    FIRST_DAY,
    SECONDS,
    Form,
    PhraseBook,
    day,
    listed,
    measure,
    normalise,
    parse_locale,
    shared_names,
    span,
)
from nmt.data.corpus import read_parallel
from nmt.data.tokenise import tokeniser
from nmt.data.vocabulary import UNKNOWN, Vocabulary
from nmt.evaluation.scores import bleu

SMALL = CldrOptions(train=300, dev=40, test=40)


@pytest.fixture(scope="module")
def default() -> Corpus:
    return generate(CldrOptions())


@pytest.fixture(scope="module")
def small() -> Corpus:
    return generate(SMALL)


def test_the_default_corpus_has_the_sizes_asked_for(default: Corpus) -> None:
    assert (len(default.train), len(default.dev), len(default.test)) == (20000, 500, 500)
    assert (len(default.dev_references), len(default.test_references)) == (500, 500)
    pairs = chain(default.train, default.dev, default.test)
    assert all(source and target for source, target in pairs)


def test_no_source_occurs_twice_in_or_between_the_sets(default: Corpus) -> None:
    sources = [" ".join(s) for s, _ in chain(default.train, default.dev, default.test)]
    assert len(set(sources)) == len(sources) == 21000


@pytest.mark.parametrize("side", [0, 1])
def test_the_words_are_a_nearly_closed_set(default: Corpus, side: int) -> None:
    vocabulary = Vocabulary.build(pair[side] for pair in default.train)
    words = [word for pair in default.dev for word in pair[side]]
    assert vocabulary.ids(words).count(UNKNOWN) < 0.003 * len(words)
    assert 1500 <= len(vocabulary) <= 2500


def test_references_are_the_text_that_was_tokenised(default: Corpus) -> None:
    for (_, target), reference in zip(default.test, default.test_references, strict=True):
        assert tokeniser("moses", "fr").tokenise(reference) == target


def test_detokenised_references_score_almost_full_marks(default: Corpus) -> None:
    plain = [tokeniser("moses", "fr").detokenise(target) for _, target in default.test]
    assert bleu(plain, default.test_references).score > 98


def test_text_holds_plain_spaces_only(default: Corpus) -> None:
    assert normalise("12\u00a0%\u202f \u2019\u200f") == "12 % '"
    assert not re.search(r"[^\S ]|\s\s", "".join(default.dev_references))


def test_a_seed_is_a_corpus(small: Corpus) -> None:
    assert generate(SMALL) == small
    other = generate(CldrOptions(train=300, dev=40, test=40, seed=2))
    shared = {" ".join(s) for s, _ in small.train} & {" ".join(s) for s, _ in other.train}
    assert len(shared) < 30


def test_evaluation_sets_stay_when_the_training_set_grows(small: Corpus) -> None:
    larger = generate(CldrOptions(train=400, dev=40, test=40))
    assert (larger.test, larger.dev) == (small.test, small.dev)
    assert larger.train[:300] == small.train


def test_few_phrases_are_drawn_twice() -> None:
    book = PhraseBook(Locale("en"), Locale("fr"))
    rng = np.random.default_rng(0)
    assert len({book.draw(rng)[0] for _ in range(25000)}) > 24000


def test_every_shared_name_is_there() -> None:
    english, french = Locale("en"), Locale("fr")
    names = shared_names(english, french)
    assert set(names.territories) == set(english.territories) & set(french.territories)
    assert set(names.languages) == set(english.languages) & set(french.languages)
    assert len(names.units) > 150 and len(names.currencies) > 100 and len(names.signs) > 12


class Fixed(np.random.Generator):
    """Answers each draw of an integer with the next of the given numbers."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(np.random.PCG64(0))
        self.numbers = list(numbers)

    def integers(self, *bounds: int) -> int:  # type: ignore[override]
        return self.numbers.pop(0)


def _in_both(form: Form) -> tuple[str, str]:
    return normalise(form(Locale("en"))), normalise(form(Locale("fr")))


def test_templates_translate_by_hand() -> None:
    names = shared_names(Locale("en"), Locale("fr"))
    when = (date(1977, 7, 4) - FIRST_DAY).days
    assert _in_both(day(Fixed(when), names, "full")) == (
        "Monday, July 4, 1977",
        "lundi 4 juillet 1977",
    )
    ago = span(Fixed(list(SECONDS).index("week"), 12, 0), names, relative=True)
    assert _in_both(ago) == ("12 weeks ago", "il y a 12 semaines")
    codes = [names.territories.index(code) for code in ("FR", "BE")]
    either = listed(Fixed(2, *codes, 1), names, "territories")
    assert _in_both(either) == ("France or Belgium", "France ou Belgique")


@pytest.mark.parametrize(
    ("amount", "english", "french"),
    [
        (1, "1 kilometer", "1 kilomètre"),
        (Decimal("1.5"), "1.5 kilometers", "1,5 kilomètre"),
        (1500, "1,500 kilometers", "1 500 kilomètres"),
    ],
)
def test_plurals_agree_in_each_language(amount, english, french) -> None:
    names = shared_names(Locale("en"), Locale("fr"))
    fixed = Fixed(AMOUNTS.index(amount), names.units.index("length-kilometer"))
    assert _in_both(measure(fixed, names)) == (english, french)


@pytest.mark.parametrize(
    ("source", "target", "script"),
    [("en", "de", "[a-zß]"), ("en", "ru", "[а-я]"), ("fr", "ja", "[ぁ-ヺ]"), ("en", "th", "[ก-ฮ]")],
)
def test_other_languages(source: str, target: str, script: str) -> None:
    corpus = generate(CldrOptions(source, target, train=400, dev=50, test=50))
    text = " ".join(corpus.dev_references)
    assert len(re.findall(script, text)) > 200
    words = [word for _, target_words in corpus.train for word in target_words]
    assert not [word for word in words if re.search(r"\d[./]\d+[./]\d", word)]  # no glued dates
    assert not re.search("length-|mass-|duration-", text)  # no codes where a name is missing


@pytest.mark.parametrize("name", ["xx", "", "en_XX", "english", "../en"])
def test_an_unknown_locale_is_told_the_form(name: str) -> None:
    with pytest.raises(UserError, match=r"CLDR locale such as en.*pt_BR"):
        generate(CldrOptions(target_locale=name, train=1, dev=1, test=1))
    assert parse_locale("pt-BR") == parse_locale("pt_BR") == Locale("pt", "BR")


def test_senseless_options_are_refused() -> None:
    with pytest.raises(UserError, match="different"):
        generate(CldrOptions("en", "en"))
    with pytest.raises(ValueError, match="train"):
        CldrOptions(train=-1)


def test_write_makes_parallel_files(tmp_path, small) -> None:
    corpus = small
    paths = write(corpus, tmp_path / "new" / "data")
    source, target = read_parallel(paths[0], paths[1])
    assert [(s.split(" "), t.split(" ")) for s, t in zip(source, target, strict=True)] == (
        corpus.train
    )
    assert sorted(path.name for path in paths) == [
        "dev.en", "dev.fr", "dev.reference.fr", "test.en", "test.fr", "test.reference.fr",
        "train.en", "train.fr",
    ]  # fmt: skip
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        write(corpus, tmp_path / "file")
