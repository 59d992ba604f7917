"""The sample translations below the scores of training, and its final message on unknown words."""

from pathlib import Path

import pytest
from tiny_run import lines_of, write_recipe


@pytest.fixture
def there(corpus: Path) -> Path:
    """The corpus, whose dev set begins with an empty line and the same source twice."""
    for end, lines in (("en", ["", "one two", "one two", "six", "zero"]),
                       ("de", ["x", "eins zwei", "eins", "sechs Elche", "null"])):
        (corpus / f"dev.{end}").write_text("\n".join(lines) + "\n", "utf-8")
    return corpus


@pytest.mark.parametrize("samples", [0, 2, 9])
def test_samples_are_shown_below_each_epoch(
    samples: int, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write_recipe(there / "r.yaml", evaluate={"samples": samples, "bleu": samples == 0})
    lines = lines_of(capsys, "train", recipe, "--output", "run")
    shown = [line for line in lines if line.startswith("  ")]
    sources, references = (["one two", "six", "zero"][:samples],
                           ["eins zwei", "sechs Elche", "null"][:samples])
    assert shown[0::3] == [f"  source       {text}" for text in sources] * 2
    assert shown[2::3] == [f"  reference    {text}" for text in references] * 2
    # The translations are those of the checkpoint that is best, by greedy search.
    (there / "six.en").write_text("\n".join(sources) + "\n" * bool(sources), "utf-8")
    actual = lines_of(capsys, "translate", "six.en", "--model", "run", "--beam", 1, "--checkpoint",
                      "last")
    last = shown[1::3][len(sources):]
    assert last == [f"  translation  {text}" for text in actual]
    if sources:
        assert lines.index(shown[0]) > next(
            i for i, line in enumerate(lines) if line.startswith("epoch 1"))


def test_unknown_words_are_counted_at_the_end(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write_recipe(there / "r.yaml", train={"epochs": 1})
    assert lines_of(capsys, "train", recipe, "--output", "run")[-3] == (
        "1 of 6 words of the dev set's references are not in the vocabulary, where the model "
        "writes <unk>: nmt translate FILE --model run --replace-unk copies such words; subwords "
        "(--data.subwords.merges 8000) leave fewer")
    (there / "dev.de").write_text("x\neins zwei\neins\nsechs\nnull\n", "utf-8")
    assert not any("<unk>" in line for line in lines_of(capsys, "train", recipe, "--output", "o"))
