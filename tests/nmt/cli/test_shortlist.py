"""`nmt translate --shortlist`: a search over few words; over all words it equals the usual
search."""

from pathlib import Path

import numpy as np
import pytest
from tiny_run import SOURCE, TARGET, captured, complaint, nmt, write_recipe

from nmt.data.corpus import read_lines
from nmt.search.interface import SearchOptions
from nmt.search.shortlist import Shortlist, rows_of
from nmt.system import System


@pytest.fixture(scope="module", autouse=True)
def work(workplace):
    """Two models, which are also used as an ensemble, and dictionaries."""
    write_recipe(workplace / "r.yaml", evaluate={"bleu": False}, model={"output_bias": True},
                 train={"epochs": 3, "learning_rate": 0.03})
    for seed in (1, 2):
        assert nmt("train", "r.yaml", "--output", f"m{seed}", "--train.seed", seed) == 0
    Path("all").write_text("".join(f"{word}\t{' '.join(TARGET)}\n" for word in SOURCE))
    Path("one").write_text("".join(map("{}\t{}\n".format, SOURCE, TARGET)))


def translated(capsys, *arguments) -> tuple[list[str], str]:
    out, error = captured(capsys, "translate", "test.en", "--beam", "3", *arguments)
    return out.splitlines(), error


@pytest.mark.parametrize("models", [["m1"], ["m1", "m2"]])
def test_all_words_are_the_whole_search(capsys, models) -> None:
    expected = translated(capsys, "--model", *models, "--nbest", "3")[0]
    few, told = translated(capsys, "--model", *models, "--nbest", "3", "--shortlist", "all",
                           "--frequent", "0", "--shortlist-check")
    assert few == expected
    assert "9 of 9 target words a batch" in told
    assert "6 of 6 sentences: the same translation as in a search of all words" in told


def test_only_candidates_are_written_and_their_ids_are_put_back() -> None:
    """Each sentence is a batch; scores are those of a softmax over the shortlist."""
    system = System.open("m1")
    words = dict(zip(SOURCE, TARGET, strict=True))
    for line in read_lines("test.en"):
        source = line.split()
        few = Shortlist({word: system.target.ids([words[word]]) for word in source}, 1, 9)
        allowed = {*system.target.words[:3], *(words[word] for word in source)}
        [[actual]] = system.translate([source], SearchOptions(beam=2), restriction=few)
        assert set(actual.words) <= allowed
        ids = few.ids([source])
        small = rows_of(system.model, system.parameters, ids)
        assert few.counts == [len(allowed)] == [len(small["output.b"])]
        assert np.array_equal(small["decoder.W_e"], system.parameters["decoder.W_e"][ids])
        assert small["encoder.W_e"] is system.parameters["encoder.W_e"]


def test_a_dictionary_of_several_translations(capsys) -> None:
    links = "".join(" ".join(f"{k}-{k}" for k in range(len(line.split()))) + "\n"
                    for line in read_lines("train.en"))
    Path("links").write_text(links)
    Path("shifted").write_text(links.replace("1-1", "1-0", 40))
    assert nmt("dictionary", "train.en", "train.de", "many", "--links", "shifted", "--min-count",
               "1", "--translations", "3") == 0
    many = [line.split("\t")[1].split() for line in read_lines("many")]
    assert max(map(len, many)) == 3 and all(len(set(words)) == len(words) for words in many)
    few, told = translated(capsys, "--model", "m1", "--shortlist", "one", "--shortlist-check")
    assert len(few) == 6 and "9 of 9" in told  # 500 frequent words are all words


def test_what_does_not_go_together(capsys) -> None:
    def refused(*arguments: str) -> str:
        return complaint(capsys, "translate", "test.en", "--model", "m1", *arguments)

    assert refused("--frequent", "3") == "--frequent: needs --shortlist DICTIONARY"
    assert refused("--shortlist-check").startswith("--shortlist-check: needs --shortlist")
    assert refused("--shortlist", "one", "--sample", "1") == (
        "--sample: cannot be used with --shortlist")
    assert "no-such" in refused("--shortlist", "no-such")
