"""Tokenisers and their reverses."""

import pytest

from nmt.data.tokenise import natural_tokeniser, tokeniser


def test_moses_cuts_by_language_and_joins_again() -> None:
    english, french = tokeniser("moses", "en"), tokeniser("moses", "fr")
    text = "Mr. Smith's dog, e.g. Rex, isn't here."
    words = ["Mr.", "Smith", "'s", "dog", ",", "e.g.", "Rex", ",", "isn", "'t", "here", "."]
    assert english.tokenise(text) == words
    assert english.detokenise(words) == text
    assert french.tokenise("l'île, 2,50 €") == ["l'", "île", ",", "2,50", "€"]
    assert french.detokenise(["l'", "île", ",", "2,50", "€"]) == "l'île, 2,50 €"


def test_nothing_is_escaped_or_unescaped() -> None:
    words = tokeniser("moses", "en").tokenise("R&D [a|b] &amp;")
    assert words == ["R", "&", "D", "[", "a", "|", "b", "]", "&", "amp", ";"]
    assert "&amp;" in tokeniser("moses", "en").detokenise(["&amp;", "x"])


def test_a_region_and_an_unknown_language_do_no_harm() -> None:
    assert tokeniser("moses", "pt_BR").tokenise("olá, mundo") == ["olá", ",", "mundo"]
    assert tokeniser("moses", "xx").tokenise("foo, bar") == ["foo", ",", "bar"]


def test_none_is_white_space() -> None:
    none = tokeniser("none", "en")
    assert none.tokenise("a,  b\tc\u00a0d") == ["a,", "b", "c\u00a0d"]
    assert none.detokenise(["a", ",", "b"]) == "a , b"
    with pytest.raises(ValueError, match="name"):
        tokeniser("spaces", "en")


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("ja", "1984年3月7日、2.5 メートル", "1984 年 3 月 7 日 、 2.5 ▁ メ ー ト ル".split()),
        ("th", "วันที่ 7 km", ["วั", "น", "ที่", "▁", "7", "▁", "km"]),
    ],
)
def test_unspaced_scripts_are_cut_into_characters_without_loss(language, text, words) -> None:
    natural = natural_tokeniser(language)
    assert natural.tokenise(text) == words
    assert natural.detokenise(words) == text


def test_the_natural_tokeniser_goes_by_the_script() -> None:
    assert natural_tokeniser("zh_Hans").tokenise("法国") == ["法", "国"]
    assert natural_tokeniser("ko").tokenise("1984년 3월") == ["1984년", "3월"]
    assert natural_tokeniser("ru").tokenise("7 марта, среда") == ["7", "марта", ",", "среда"]
