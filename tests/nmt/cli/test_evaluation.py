"""`nmt evaluate`, `align`, `attention`, `dictionary`, `translate --replace-unk`."""

import importlib.util
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_run import SOURCE, TARGET, complaint, files_in, nmt, printed

from nmt.data.align import Gold, alignment_score
from nmt.data.corpus import read_lines
from nmt.evaluation.scores import bleu
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.run import BEST

GERMAN = dict(zip(SOURCE, TARGET, strict=True))


@pytest.fixture
def system(trained):
    """The toy translator; `model` is its directory in the working directory."""
    return System.open("model")


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return path


# --- force-decoding -----------------------------------------------------------------------------


def test_forced_alignments_find_the_words_that_translate_each_other(system) -> None:
    """In the corpus, word i translates word i; the source is read in reverse."""
    pairs = [(x.split(), y.split()) for x, y in zip(read_lines("train.en"), read_lines("train.de"),
                                                    strict=True)]
    right = wrong = 0
    for translation, (source, target) in zip(system.force(pairs), pairs, strict=True):
        assert translation.words == target
        assert translation.alignment.shape == (len(target) + 1, len(source))
        for s, t in system.links(translation):
            right, wrong = right + (s == t), wrong + (s != t)
    assert right > 5 * wrong


def test_forced_pairs_keep_their_places(system) -> None:
    pairs = [(["one"], ["eins"]), ([], ["eins"]), (["two"], []), (["six", "one"], ["neu", "eins"])]
    actual = system.force(pairs)
    assert [translation.words for translation in actual] == [target for _, target in pairs]
    assert [translation.alignment is None for translation in actual] == [False, True, True, False]
    assert actual[1].log_probability == 0.0 and system.links(actual[1]) == []
    (alone,) = system.force(pairs[3:])
    np.testing.assert_allclose(alone.alignment, actual[3].alignment, atol=1e-6)
    nats = -sum(system.force([pair])[0].log_probability for pair in (pairs[0], pairs[3]))
    assert system.perplexity([pairs[0], pairs[3]]) == pytest.approx(np.exp(nats / 5), rel=1e-5)
    assert system.force([]) == [] and len(system.force(pairs[1:2])) == 1


def test_align(system, trained, capsys) -> None:
    write(trained / "s", "one two three", "", "four")
    write(trained / "t", "eins zwei drei", "eins", "vier neu")
    pairs = [(["one", "two", "three"], ["eins", "zwei", "drei"]), (["four"], ["vier", "neu"])]
    for options, convention in (([], "predicted"), (["--aligned-word", "read"], "read"),
                                (["--aligned-word", "thesis"], "read")):
        lines = printed(capsys, "align", "s", "t", "--model", "model", *options).split("\n")
        links = [" ".join(f"{s}-{t}" for s, t in system.links(translation, convention))
                 for translation in system.force(pairs)]
        assert lines == [links[0], "", links[1], ""]
    assert links[1] == "0-0 0-1"


# --- unknown words ------------------------------------------------------------------------------


@pytest.fixture
def forgetful(system, trained):
    """The same translator with "eins" and `<unk>` exchanged."""
    saved = checkpoint.load(trained / "model" / BEST)
    (eins,) = system.target.ids(["eins"])
    for name in ("output.W_hy", "decoder.W_e"):
        array = saved.arrays[checkpoint.PARAMETERS + name]
        array[[0, eins]] = array[[eins, 0]]
    checkpoint.save(trained / "model" / BEST, saved.arrays, saved.metadata)
    return System.open("model")


def translated(monkeypatch, capsys, content, *options):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    return printed(capsys, "translate", "--model", "model", *options).split("\n")[:-1]


def test_unknown_words_are_looked_up_or_copied(forgetful, trained, monkeypatch, capsys) -> None:
    write(trained / "d", "one\tuno due", "two\tno")
    content = b"one\n\ntwo\n"
    assert translated(monkeypatch, capsys, content) == ["<unk>", "", "zwei"]
    assert translated(monkeypatch, capsys, content, "--replace-unk") == ["one", "", "zwei"]
    options = ["--replace-unk", "d", "--aligned-word", "read"]
    assert translated(monkeypatch, capsys, content, *options) == ["uno due", "", "zwei"]
    lines = translated(monkeypatch, capsys, content, "--nbest", 1, *options)
    assert [line.split(" ||| ")[1] for line in lines] == ["uno due", "", "zwei"]


@pytest.mark.parametrize("convention", ["predicted", "read"])
def test_what_is_replaced_comes_from_the_links(forgetful, monkeypatch, capsys, convention) -> None:
    source = "two one three one five".split()
    ((best,),) = forgetful.translate([source], SearchOptions(2))
    linked = dict(link[::-1] for link in forgetful.links(best, convention))
    assert "<unk>" in best.words and len(linked) == len(best.words)
    expected = " ".join(source[linked[t]] if word == "<unk>" else word
                        for t, word in enumerate(best.words))
    options = ["--replace-unk", "--aligned-word", convention, "--alignments", "links"]
    assert translated(monkeypatch, capsys, b"two one three one five\n", *options) == [expected]
    assert read_lines("links") == [" ".join(f"{s}-{t}" for t, s in sorted(linked.items()))]


# --- evaluation ---------------------------------------------------------------------------------


def test_evaluate(system, trained, capsys) -> None:
    shown = printed(capsys, "evaluate", "test.en", "test.de", "--model", "model", "--buckets",
                    "2,4", "--output", "out/here")
    sources = [line.split() for line in read_lines("test.en")]
    references = read_lines("test.de")
    texts = [" ".join(nbest[0].words) for nbest in system.translate(sources, SearchOptions(2))]
    score = bleu(texts, references, "none")
    assert re.search(rf"^BLEU +{score.score:.2f}$", shown, re.MULTILINE)
    assert f"BLEU {score.signature}\n" in shown
    pairs = list(zip(sources, (line.split() for line in references), strict=True))
    assert re.search(rf"^perplexity +{system.perplexity(pairs):.2f}$", shown, re.MULTILINE)
    (actual,) = json.loads((trained / "out/here/evaluation.json").read_text())["systems"]
    assert actual["name"] == "model" and actual["bleu"]["score"] == pytest.approx(score.score)
    assert [b["label"] for b in actual["bleu_by_length"]] == ["1-2", "3-4", "5+"]
    assert sum(b["sentences"] for b in actual["bleu_by_length"]) == len(sources)
    for bucket, low, high in zip(actual["bleu_by_length"], (1, 3, 5), (2, 4, 9), strict=True):
        inside = [i for i, words in enumerate(sources) if low <= len(words) <= high]
        expected = bleu([texts[i] for i in inside], [references[i] for i in inside], "none").score \
            if inside else None
        assert bucket["bleu"] == expected
    assert actual["bleu_after_replacement"] == actual["alignment"] == {}


def test_evaluate_writes_pictures(system, trained, capsys) -> None:
    pytest.importorskip("matplotlib")
    printed(capsys, "evaluate", "test.en", "test.de", "--model", "model", "--output", "out")
    assert files_in(trained / "out") == {"evaluation.json", "outputs.txt", "bleu-by-length.png",
                                         "learning-curves.png", "bleu-by-perplexity.png"}


def test_pictures_for_papers(system, trained, capsys) -> None:
    pytest.importorskip("matplotlib")
    printed(capsys, "evaluate", "test.en", "test.de", "--model", "model", "--output", "out",
            "--format", "svg")
    assert {name for name in files_in(trained / "out") if name.endswith(("svg", "png"))} == {
        "bleu-by-length.svg", "learning-curves.svg", "bleu-by-perplexity.svg"}
    printed(capsys, "attention", "test.en", "--model", "model", "--png", "maps", "--format", "pdf")
    (name,) = files_in(trained / "maps")
    assert name.endswith(".pdf") and (trained / "maps" / name).read_bytes()[:4] == b"%PDF"


def test_without_matplotlib_there_are_numbers_and_a_word_about_it(
    system, trained, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    shown = printed(capsys, "evaluate", "test.en", "test.de", "--model", "model", "--output", "out")
    assert "no pictures: matplotlib is not installed (pip install -e '.[plot]' in a" in shown
    assert files_in(trained / "out") == {"evaluation.json", "outputs.txt"}
    said = complaint(capsys, "attention", "test.en", "--model", "model", "--png", "maps")
    assert said.startswith("--png: matplotlib is not installed")
    assert not (trained / "maps").exists()


def test_systems_stand_side_by_side(system, trained, capsys) -> None:
    (trained / "other").mkdir()
    (trained / "model").rename(trained / "other/model")
    (trained / "new").symlink_to(trained / "other/model")
    shown = printed(capsys, "evaluate", "test.en", "test.de", "--model", "other/model", "new",
                    "--beam", 1)
    assert re.search(r"^ +other/model +new$", shown, re.MULTILINE)
    ((first, other),) = re.findall(r"^perplexity +(\S+) +(\S+)$", shown, re.MULTILINE)
    assert first == other


def retrained(seed, **settings):
    """Another translator with the same vocabularies and data as `model`."""
    overrides = [word for name, value in settings.items() for word in (f"--{name}", value)]
    assert nmt("train", "model/recipe.yaml", "--output", f"model-{seed}", "--train.seed", seed,
               "--train.epochs", 1, "--evaluate.bleu", "no", *overrides) == 0
    return System.open(f"model-{seed}")


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_an_ensemble_stands_beside_its_members(
    system, trained, capsys, monkeypatch, average
) -> None:
    other = retrained(2, **{"model.score": "dot", "model.hidden_size": 12})
    together = System.together(["model", "model-2"], [system, other], average)
    sources = [line.split() for line in read_lines("test.en")]
    texts = [" ".join(nbest[0].words) for nbest in together.translate(sources, SearchOptions(2))]
    printed(capsys, "evaluate", "test.en", "test.de", "--model", "model", "model-2",
            "--ensemble", average, "--output", "out", "--gold", write(trained / "g", *["0-0"] * 6))
    *members, actual = json.loads((trained / "out/evaluation.json").read_text())["systems"]
    assert actual["name"] == f"ensemble, {average}"
    assert actual["bleu"]["score"] == bleu(texts, read_lines("test.de"), "none").score
    between = [member["perplexity"] for member in members]
    assert actual["perplexity"] < max(between) and actual["perplexity"] not in between
    content = b"".join(" ".join(source).encode() + b"\n" for source in sources)
    assert translated(monkeypatch, capsys, content, "model-2", "--average", average) == texts


def test_models_that_are_no_ensemble(system, trained, capsys) -> None:
    retrained(3, **{"data.max_vocabulary": 3})
    retrained(4, **{"data.reverse_source": "no"})
    pair = ["evaluate", "test.en", "test.de", "--ensemble", "--model", "model"]
    assert complaint(capsys, *pair) == "--ensemble: expected two models or more, got one"
    assert complaint(capsys, *pair, "model-3") \
        == "model-3: expected the source vocabulary of model in one ensemble, got another"
    assert complaint(capsys, "translate", "--model", "model", "model-4") \
        == "model-4: expected the data.reverse_source of model in one ensemble, got another"


def test_an_ensemble_reads_what_its_shortest_member_reads(system) -> None:
    other = retrained(5, **{"data.max_length": 9})
    data = replace(other.recipe.data, max_translate_length=7)
    other.recipe = replace(other.recipe, data=data)
    for pair in ((system, other), (other, system)):
        together = System.together(["one", "two"], pair, "logs")
        assert together.recipe.data.max_translate_length == 7


def test_alignment_error_rate(system, trained, capsys) -> None:
    source = write(trained / "s", "one two three", "", "four five new")
    target = write(trained / "t", "eins zwei drei", "", "fünf vier neu")
    write(trained / "pharaoh", "0-0 1-1 2-2", "", "0-1 1?0 2p2")
    write(trained / "naacl", "1 1 1 S", "1 2 2 S", "1 3 3", "3 2 1 S", "3 1 2 P", "3 3 3 P")
    people = [Gold(frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(0, 0), (1, 1), (2, 2)})),
              Gold(frozenset(), frozenset()),
              Gold(frozenset({(0, 1)}), frozenset({(0, 1), (1, 0), (2, 2)}))]
    forced = system.force([(x.split(), y.split()) for x, y in zip(
        read_lines(source), read_lines(target), strict=True)])
    for options in (["pharaoh"], ["naacl", "--gold-swapped"]):
        shown = printed(capsys, "evaluate", "s", "t", "--model", "model", "--gold", *options,
                        "--output", "out")
        (actual,) = json.loads((trained / "out/evaluation.json").read_text())["systems"]
        for convention in ("predicted", "read"):
            links = [system.links(translation, convention) for translation in forced]
            if options[0] == "naacl":
                people[2] = Gold(frozenset({(0, 1)}), people[2].possible)
            score = alignment_score(links, people)
            assert actual["alignment"][convention]["error_rate"] == score.error_rate
            assert re.search(rf"AER \({convention}\) +{score.error_rate:.3f}", shown)
    write(trained / "pharaoh", "0-0 1-1 9-2", "", "0-1")
    shown = printed(capsys, "evaluate", "s", "t", "--model", "model", "--gold", "pharaoh",
                    "--drop-bad-links")
    assert "pharaoh: 1 link does not fit its sentence and is left out\n" in shown


def test_bleu_after_replacement(forgetful, trained, capsys) -> None:
    write(trained / "d", "one\teins")
    sources = [["one"] * 4, ["one"] * 5]
    actual = [nbest[0].words for nbest in forgetful.translate(sources, SearchOptions(2))]
    write(trained / "s", *map(" ".join, sources))
    write(trained / "t", *(" ".join(words).replace("<unk>", "eins") for words in actual))
    shown = printed(capsys, "evaluate", "s", "t", "--model", "model", "--replace-unk", "d",
                    "--output", "o")
    (actual,) = json.loads((trained / "o/evaluation.json").read_text())["systems"]
    assert actual["bleu"]["score"] < 50 and actual["unknown_words"] > 4
    assert actual["bleu_after_replacement"] == pytest.approx({"predicted": 100, "read": 100})
    assert re.search(r"^BLEU, unk replaced \(read\) +100.00$", shown, re.MULTILINE)


def systems_of(capsys, *arguments):
    """The printed output of `nmt evaluate`, and the systems in its JSON."""
    shown = printed(capsys, "evaluate", *arguments, "--output", "o")
    with open("o/evaluation.json", encoding="utf-8") as file:
        return shown, json.load(file)["systems"]


def test_sentences_without_unknown_words_are_translated_without_any(
    forgetful, trained, capsys
) -> None:
    """Words may be unknown on either side. The references of the other sentences are the model's
    translations without `<unk>`."""
    sources = ["one two three one", "one new two two", "", "three two one two", "five six two one",
               "six one five two"]
    options = SearchOptions(2, unknown=False)
    texts = [" ".join(nbest[0].words) for nbest in
             forgetful.translate([sources[i].split() for i in (0, 5)], options)]
    references = [texts[0], "eins drei zwei zwei", "eins", "drei neu eins zwei", "", texts[1]]
    arguments = [write(trained / "s", *sources), write(trained / "t", *references),
                 "--model", "model"]
    shown, (actual,) = systems_of(capsys, *arguments, "--without-unk")
    assert actual["unknown_words"] > 2 and "<unk>" not in " ".join(texts)
    assert actual["bleu_without_unknown"] == {"sentences": 2, "bleu": pytest.approx(100)}
    assert re.search(r"^BLEU, sentences without unknown words +100.00$", shown, re.MULTILINE)
    assert re.search(r"^  number of them +2$", shown, re.MULTILINE)
    shown, (actual,) = systems_of(capsys, *arguments)
    assert actual["bleu_without_unknown"] is None and "number of them" not in shown


def test_each_system_knows_its_own_words(system, trained, capsys) -> None:
    """A system without such sentences has a dash for a score."""
    retrained(6, **{"data.max_vocabulary": 5})
    retrained(7, **{"data.max_vocabulary": 3})
    # A vocabulary of one word knows no sentence of several words entirely
    pairs = [pair for pair in zip(read_lines("train.en"), read_lines("train.de"), strict=True)
             if len(set(pair[0].split())) > 1]
    source, target = (write(trained / name, *lines)
                      for name, lines in zip("st", zip(*pairs, strict=True), strict=True))
    shown, actual = systems_of(capsys, source, target, "--without-unk", "--model", "model",
                               "model-6", "model-7")
    every = len(pairs)
    numbers = [result["bleu_without_unknown"]["sentences"] for result in actual]
    assert numbers[0] == every > numbers[1] > numbers[2] == 0
    assert actual[2]["bleu_without_unknown"]["bleu"] is None
    assert re.search(r"^BLEU, sentences without unknown words( +[0-9.]+){2} +-$", shown,
                     re.MULTILINE)
    assert re.search(r"^  number of them +{} +{} +0$".format(*numbers), shown, re.MULTILINE)


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_models_without_attention_stand_beside_those_with_it(
    system, trained, capsys, average
) -> None:
    """The ensemble's alignments are those of its members with attention."""
    plain = {"model.attention": "none", "model.input_feeding": "no"}
    other = retrained(8, **plain)
    gold = write(trained / "g", *["0-0"] * 6)
    questions = ["--gold", gold, "--replace-unk"]
    shown, (without, alone, together) = systems_of(
        capsys, "test.en", "test.de", "--model", "model-8", "model", "--ensemble", average,
        *questions)
    assert without["alignment"] == without["bleu_after_replacement"] == {}
    for result in (alone, together):
        assert result["alignment"].keys() == result["bleu_after_replacement"].keys() \
            == {"predicted", "read"}
    for convention in ("predicted", "read"):
        for label in (rf"BLEU, unk replaced \({convention}\)", rf"AER \({convention}\)"):
            assert re.search(rf"^{label} +-( +[0-9.]+){{2}}$", shown, re.MULTILINE)
    ensemble = System.together(["model-8", "model"], [other, system], average)
    pairs = list(zip(map(str.split, read_lines("test.en")), map(str.split, read_lines("test.de")),
                     strict=True))
    links = [ensemble.links(forced) for forced in ensemble.force(pairs)]
    people = [Gold(frozenset({(0, 0)}), frozenset({(0, 0)}))] * 6
    assert together["alignment"]["predicted"]["error_rate"] \
        == alignment_score(links, people).error_rate


# --- maps and dictionaries ----------------------------------------------------------------------


def test_attention(system, trained, capsys) -> None:
    pytest.importorskip("matplotlib")
    write(trained / "s", "one two", "", "three four five")
    write(trained / "t", "eins zwei", "", "drei vier")
    shown = printed(capsys, "attention", "s", "t", "--model", "model", "--line", 3, 2, 1, "--png",
                    "maps")
    assert re.search(r"^3: drei vier\ndrei \|.*\nvier \|", shown)
    assert "1 three  2 four  3 five\n" in shown and "2: nothing to show, a side is empty" in shown
    assert files_in(trained / "maps") == {"attention-1.png", "attention-3.png"}
    for name, begin in (("one.png", b"\x89PNG"), ("three.pdf", b"%PDF")):
        line = ("--line", 3) if name == "three.pdf" else ()
        shown = printed(capsys, "attention", "s", "t", "--model", "model", "-o", name, *line)
        assert shown.endswith(f"\n{name}\n\n") and Path(name).read_bytes().startswith(begin)
    shown = printed(capsys, "attention", "s", "--model", "model", "--aligned-word", "read")
    ((best,),) = system.translate([["one", "two"]], SearchOptions(2))
    assert shown.startswith(f"1: {' '.join(best.words)}\n")


def test_dictionary(system, capsys) -> None:
    for how in (["--links", "links"], ["--model", "model"]):
        lines = [len(line.split()) for line in read_lines("train.en")]
        with open("links", "w") as file:
            file.writelines(" ".join(f"{i}-{i}" for i in range(n)) + "\n" for n in lines)
        shown = printed(capsys, "dictionary", "train.en", "train.de", "d", *how, "--min-count", 5)
        assert shown == f"d: {len(SOURCE)} source words\n"
        assert dict(line.split("\t") for line in read_lines("d")) == GERMAN
    assert printed(capsys, "dictionary", "dev.en", "dev.de", "d", "--model", "model") \
        == "d: 0 source words\n"  # the toy corpus does not have 101 links, the thesis's minimum


@pytest.mark.parametrize(("arguments", "message"), [
    ("evaluate test.en dev.de --model model", r"test.en has 6 lines, .*dev.de has 8"),
    ("evaluate test.en test.de --model absent", r"absent: expected the run directory"),
    ("evaluate test.en test.de", r"arguments are required: --model"),
    ("evaluate blank blank --model model", r"blank, blank: expected at least one pair of sent"),
    ("evaluate test.en test.de --model model --buckets 4,2", r"expected rising numbers such as"),
    ("evaluate test.en test.de --model model --buckets a", r"expected rising numbers.*got 'a'"),
    ("evaluate test.en test.de --model model --beam 0", r"--beam: expected an integer of at le"),
    ("evaluate test.en test.de --model model --length-normalisation nan",
     r"--length-normalisation: expected a number of at least 0"),
    ("evaluate test.en test.de --model model --gold absent", r"absent: cannot be read"),
    ("evaluate test.en test.de --model model --gold dev.gold", r"a line for each of 6 .* found 8"),
    ("evaluate test.en test.de --model model --gold far", r"far:2: link '0-77': expected a target"),
    ("evaluate test.en test.de --model model --gold blank", r"blank: expected at least one link"),
    ("evaluate test.en test.de --model model --replace-unk dev.en", r"dev.en:1: expected a source"),
    ("evaluate test.en test.de --model model --output test.en",
     r"test.en: cannot make the directory"),
    ("evaluate test.en test.de --model model broken", r"broken/log.jsonl:1: expected a record"),
    ("align test.en dev.de --model model", r"test.en has 6 lines"),
    ("align test.en test.de --model model --aligned-word both", r"invalid choice: 'both'"),
    ("attention test.en --model model --line 1 2 -o a.png",
     r"--output: expected one map for one file, got 2; --png DIR takes several"),
    ("attention test.en --model model -o no/a.png", r"no/a.png: expected a file in a directory"),
    ("attention test.en --model model -o a.png --png b", r"--png: not allowed with .*-o"),
    ("attention test.en --model model --line 7", r"--line: expected a line of test.en from 1 to 6"),
    ("attention test.en --model model --line 0", r"--line: expected an integer of at least 1"),
    ("dictionary test.en test.de d", r"expected --links FILE or --model DIR, got both or neither"),
    ("dictionary test.en test.de d --links far", r"far:2: link '0-77'"),
    ("dictionary test.en test.de absent/d --links blank", r"absent/d: cannot be written"),
    ("translate --model model --replace-unk absent", r"absent: cannot be read"),
])
def test_wrong_requests(system, trained, capsys, arguments, message) -> None:
    write(trained / "blank", *[""] * 6)
    write(trained / "dev.gold", *["0-0"] * 8)
    write(trained / "far", "0-0", "0-77", *[""] * 4)
    (trained / "broken").mkdir()
    for path in (trained / "model").iterdir():
        (trained / "broken" / path.name).write_bytes(path.read_bytes())
    write(trained / "broken" / "log.jsonl", "{")
    before = files_in(trained)
    assert re.search(message, complaint(capsys, *arguments.split()))
    assert files_in(trained) == before


def test_what_needs_attention_says_so(corpus, capsys) -> None:
    assert nmt("train", "r.yaml", "--output", "out", "--train.epochs", 1, "--model.attention",
               "none", "--model.input_feeding", "no") == 0
    none = "expected a model with attention, this one has none"
    pair = ["test.en", "test.de", "--model", "out"]
    for arguments, name in (
        (["align", *pair], "nmt align"), (["attention", *pair], "nmt attention"),
        (["dictionary", "test.en", "test.de", "d", "--model", "out"], "nmt dictionary"),
        (["translate", "--model", "out", "--replace-unk"], "--replace-unk"),
        (["translate", "--model", "out", "--alignments", "links"], "--alignments"),
    ):
        assert complaint(capsys, *arguments) == f"{name}: {none}"
    for asked, name in ((["--gold", "x"], "--gold"), (["--replace-unk"], "--replace-unk"),
                        (["--gold", "x", "--replace-unk"], "--gold and --replace-unk")):
        assert complaint(capsys, "evaluate", *pair, "out", "--ensemble", *asked) \
            == f"{name}: expected a model with attention in --model, got none"
    assert "BLEU" in printed(capsys, "evaluate", *pair) and not (corpus / "links").exists()
