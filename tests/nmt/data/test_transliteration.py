"""Uyghur in Latin letters."""

from __future__ import annotations

import unicodedata

from babel import Locale

from nmt.data.cldr import CldrOptions, generate
from nmt.data.corpora import load_corpus, tokenisers
from nmt.data.transliteration import LETTERS, latin
from nmt.recipe import DataConfig


def test_names_of_languages_and_countries() -> None:
    names = "ئۇيغۇرچە گېرمانىيە تۈركچە ئۆزبېكچە جۇڭگو چېخچە نورۋېگچە ژاپون"
    assert latin(names.split()) == ["uyghurche", "gërmaniye", "türkche", "özbëkche", "junggo",
                                    "chëxche", "norwëgche", "zhapon"]
    assert latin(["2004", "Uzbek", "o'zbek", "،", "ئ"]) == ["2004", "Uzbek", "o'zbek", ",", "ئ"]


def test_no_arabic_letter_of_the_embedded_names_is_left() -> None:
    """CLDR's own Uyghur has the table's letters and no others."""
    known = Locale.parse("ug")
    words = " ".join([*known.languages.values(), *known.territories.values(),
                      *known.months["format"]["wide"].values()]).split()
    left = {letter for word in latin(words) for letter in word
            if "ARABIC" in unicodedata.name(letter, "")}
    assert not left, left
    assert len(set(LETTERS)) == len(LETTERS) == 36


def test_a_recipe_asks_for_it() -> None:
    data = DataConfig(corpus="cldr", source_language="ug", target_language="en", train_size=20,
                      dev_size=3, test_size=3)
    plain = generate(CldrOptions("ug", "en", 20, 3, 3, data.seed))
    asked = load_corpus(DataConfig(**{**vars(data), "transliterate": True}))
    assert [x for x, _ in asked.train] == [latin(x) for x, _ in plain.train]
    assert [x for x, _ in asked.dev.pairs] == [latin(x) for x, _ in plain.dev]
    assert [y for _, y in asked.train] == [y for _, y in plain.train]
    source, target = tokenisers(DataConfig(**{**vars(data), "transliterate": True}))
    assert source.tokenise("ماي ، 1977") == ["may", ",", "1977"]
    assert target.tokenise("ماي") == ["ماي"]
