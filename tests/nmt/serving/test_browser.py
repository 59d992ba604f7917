"""The page in a browser, as somebody uses it."""

from __future__ import annotations

from typing import Any

import pytest

SENTENCE = "one two <img src=x onerror=alert(1)>"
UNKNOWN = ["<img", "src=x", "onerror=alert(1)>"]
EXCESS = "document.documentElement.scrollWidth - innerWidth"


def test_a_sentence_is_translated_and_its_search_is_shown(visit: Any, serving: Any) -> None:
    server = serving()
    shown = visit(server)
    assert not shown.page.is_visible("#answer") and not shown.page.is_visible("#tree")
    shown.translate("one")
    shown.translate(SENTENCE)
    answer = server.service.answer({"text": SENTENCE})
    best, steps = answer["nbest"][0], answer["search"]["searches"]["beam"]["steps"]
    assert shown.page.inner_text("#translation") == (answer["translation"] or "(empty)")
    assert shown.texts("#read .unknown") == UNKNOWN == answer["unknown"]
    assert shown.texts("#words .value") == [word["word"] for word in best["words"]]
    said = shown.page.eval_on_selector_all("#words .number", "all => all.map(x => x.title)")
    for title, word in zip(said, best["words"], strict=True):
        assert float(title[6:].partition(",")[0].replace("−", "-")) == pytest.approx(word["log_p"])
    assert shown.texts("#result dd[data-of=beam] a") == [
        hypothesis["translation"] or "(empty)" for hypothesis in answer["nbest"]]
    weights = [[float(value) for value in row] for row in shown.page.evaluate(
        """[...document.querySelectorAll("#attention tbody tr")].map((row) =>
           [...row.querySelectorAll("td")].map((cell) => cell.style.getPropertyValue("--weight")))
        """)]
    assert weights == best["attention"]
    assert shown.texts("#attention thead th span") == answer["source"]
    assert shown.texts(".lane.beam .word") == [
        candidate["word"] for step in steps for candidate in step["candidates"]]
    assert set(shown.requests) == {server.url, f"{server.url}translate"}
    assert shown.complaints == [] and not shown.page.query_selector("img")


def test_keys_and_other_hypotheses(visit: Any, serving: Any) -> None:
    server = serving()
    shown = visit(server)
    shown.translate(SENTENCE)
    second = server.service.answer({"text": SENTENCE})["nbest"][1]
    shown.page.click("#result dd[data-of=beam] >> nth=1 >> a")
    shown.page.wait_for_selector(f"#hypothesis .value >> nth={len(second['words']) - 1}")
    assert shown.texts("#hypothesis .value") == [word["word"] for word in second["words"]]
    shown.page.keyboard.press("Home")
    assert shown.page.inner_text("#where b") == "Step 1"
    shown.page.focus("#text")
    shown.page.keyboard.press("ArrowRight")  # moves in the text, not in the tree
    assert shown.page.inner_text("#where b") == "Step 1"
    shown.page.fill("#beam", "1")
    shown.translate("two one")
    assert shown.texts("#result dd[data-of=beam] a") == shown.texts("#result dd[data-of=greedy] a")


def test_errors_are_shown(visit: Any, serving: Any) -> None:
    server = serving(words=8, waiting=0)
    shown = visit(server, viewport={"width": 390, "height": 844}, color_scheme="dark")
    assert "at most 8 words, got 10" in shown.refused("word " * 10)
    assert "at least one word" in shown.refused("")
    with server.service._turn():
        assert "too many requests" in shown.refused("one")
    shown.translate("one\ntwo")  # as pasted: one sentence
    assert shown.page.inner_text("#problem") == ""
    assert shown.page.inner_text("#read").startswith("Read: one two")
    assert shown.page.evaluate(EXCESS) <= 0
    server.shutdown()
    server.server_close()
    assert "Is nmt serve still running?" in shown.refused("one")
