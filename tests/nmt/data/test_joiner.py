"""The joiner's tokens: any line is restored exactly."""

from __future__ import annotations

import unicodedata
from datetime import datetime

import pytest
from babel import Locale, dates, lists, numbers
from hypothesis import given
from hypothesis import strategies as st

from nmt.data import joiner
from nmt.data.corpora import tokenisers
from nmt.data.tokenise import tokeniser
from nmt.recipe import DataConfig

JOIN = tokeniser("joiner", "en")

TABLE = {
    "wasn’t": "wasn ￭’￭ t",
    "cafe\u0301 noir": "café noir",
    "می\u200cروم": "می\u200cروم",
    "👩\u200d👩\u200d👧 ok": "👩\u200d👩\u200d👧 ok",
    "soft\u00adhyphen": "soft\u00adhyphen",
    "at 2:30.": "at 2 ￭:￭ 30 ￭.",
    "https://a.org/b?c=d": "https ￭: ￭/ ￭/￭ a ￭.￭ org ￭/￭ b ￭?￭ c ￭=￭ d",
    "L'home d'avui": "L ￭'￭ home d ￭'￭ avui",
    "12\u00a0000\u00a0€ «\u202fbonjour\u202f»":
        "12 ￭￮00a0￭ 000 ￭￮00a0 ￭€ « ￭￮202f￭ bonjour ￭￮202f ￭»",
    "12 000 € « bonjour »": "12 000 € « bonjour »",
    "سلام، دنيا؟ قال ।": "سلام ￭، دنيا ￭؟ قال ।",
    "हिन्दी में।": "हिन्दी में ￭।",
    "1984年3月": "1984 ￭年 ￭3 ￭月",
    "วันที่ 7 km": "วั ￭น ￭ที่ 7 km",
    "@-@ co@@ &apos;": "@ ￭- ￭@ co ￭@ ￭@ &￭ apos ￭;",
    "<unk> </s> <2de>": "<￭ unk ￭> < ￭/￭ s ￭> <￭ 2de ￭>",
    "two  spaces": "two ￮ spaces",
    " ends ": "￮ ends ￮",
    "a\tb\rc": "a ￭￮0009￭ b ￭￮000d￭ c",
    "￭ and ￮": "￮ffed and ￮ffee",
    "\u0301 x\u00a0\u0301": "\u0301 x ￭￮00a0\u0301",
    "\ufeffx": "\ufeff￭ x",
}


@pytest.mark.parametrize("text", TABLE)
def test_the_hard_cases(text: str) -> None:
    tokens = JOIN.tokenise(text)
    assert " ".join(tokens) == TABLE[text]
    assert JOIN.detokenise(tokens) == unicodedata.normalize("NFC", text)


# Text with all characters of the rules, in all combinations.
HARD = st.text(st.one_of(st.sampled_from("ab1 ￭￮'\u0301\u200c\u200d\u00ad\u00a0\t年กั👩🏽🇩\u0600"),
                         st.characters(exclude_categories=["Cs"], exclude_characters="\n")))


@given(HARD)
def test_every_line_is_restored(text: str) -> None:
    tokens = JOIN.tokenise(text)
    assert all(token and not set(token) & set(" \t\n") for token in tokens)
    expected = unicodedata.normalize("NFC", text)
    assert JOIN.detokenise(tokens) == ("" if text.isspace() else expected)


@given(st.lists(st.text(st.sampled_from("￭￮a0d8. "))))
def test_whatever_a_model_writes_is_a_line(tokens: list[str]) -> None:
    text = JOIN.detokenise([*tokens, "￮000a", "￮d800"])
    assert "\n" not in text and text.encode()


def test_a_lone_joiner_joins() -> None:
    assert JOIN.detokenise(["a", "￭", "b", "￭￮", "c", "￮zz"]) == "ab c zz"


@pytest.mark.parametrize("language", [
    "am", "ar", "bn", "ca", "cs", "de", "el", "en", "fa", "fr", "he", "hi", "hy", "ja", "ka", "km",
    "ko", "my", "ru", "ta", "th", "ti", "tr", "ur", "vi", "yue", "zh"])
def test_phrases_of_many_languages(language: str) -> None:
    locale = Locale.parse(language)
    moment = datetime(1984, 3, 7, 15, 30)
    names = [*locale.territories.values(), *locale.languages.values()]
    texts = [*names, lists.format_list(names[:9], locale=locale),
             *(dates.format_datetime(moment, width, locale=locale) for width in ("full", "short")),
             *(numbers.format_currency(12345.5, code, locale=locale) for code in ("EUR", "ILS"))]
    for text in (unicodedata.normalize("NFC", text) for text in texts):
        assert JOIN.detokenise(JOIN.tokenise(text)) == text


def test_a_model_reads_no_spaces_at_the_ends_of_a_line() -> None:
    data = DataConfig(train_source="a", train_target="b")
    assert data.tokenise == "joiner"
    assert all(side.tokenise("  a  b. ") == ["a", "￮", "b", "￭."] for side in tokenisers(data))


@given(HARD, st.sampled_from(["", ".", ",", "!", "é", "1", "²", "\u0301"]))
def test_what_is_remembered_is_what_the_rules_make(text: str, end: str) -> None:
    for chunk in (text + end).split(" "):
        assert joiner._Chunks()[chunk] == " ".join(joiner._cut_chunk(chunk))


@pytest.mark.parametrize("known", (1, 3, 1 << 18))
def test_many_lines_have_the_tokens_of_each(known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few tokens are cached; spaces at the ends of a line are left out."""
    monkeypatch.setattr(joiner, "KNOWN", known)
    lines = [unicodedata.normalize("NFC", text) for text in [*TABLE, "", "  ", "\t", " a. b "]] * 2
    assert joiner.texts(lines) == [" ".join(joiner.cut(line.strip(" "))) for line in lines]
    assert all(len(joiner.cut(line)) == 0 for line in ("", "  ", "\t"))
