"""A tiny run of each kind of system that can be trained, averaged or pruned."""

from __future__ import annotations

from pathlib import Path

from faults.harness import Case
from tiny_run import RECIPE, TEXT_RECIPE, nmt, write_corpus, write_recipe

SIZES = {"hidden_size": 4, "embedding_size": 4}
TRAIN = {"epochs": 1, "keep": 1, "batch_size": 16}
TWICE = ("--train.epochs", "2")  # an epoch's checkpoint is dropped
MODELS = {  # by architecture; what has a file of its own is in one of them
    "luong": {**SIZES, "layers": 1, "dropout": 0.1, "lexicon_epsilon": 0.01},
    "rnnsearch": {**SIZES, "layer_size": 4},
    "hybrid": {**SIZES, "layers": 1, "character_embedding_size": 4},
    "transformer": {"encoder_layers": 1, "decoder_layers": 1, "hidden_size": 4, "inner_size": 4,
                    "heads": 2},
    "two_sources": {**SIZES, "layers": 1},
    "features": {**SIZES, "layers": 1},
}
DATA = {
    "luong": {"lexicon": "words.lex"},
    "transformer": {"subwords": {"merges": 4}},
    "two_sources": {f"{name}_second_source": f"{name}.de" for name in ("train", "dev")},
}
MIXTURE = """\
tasks:
  a: rnnsearch.yaml
  b: {base: rnnsearch.yaml, data: {corpus: copy}}
ratios: {b: 1}
share: [encoder]
"""
LM = ("lm", "train")
OF_TWO = ("--model", "rnnsearch-run", "--lm", "language_model-run")
HALF = ("--percent", "50", "--train.epochs", "1", "--retrain")
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # to begin, to resume
    **{name: (("train", f"{name}.yaml"), ("train",)) for name in MODELS},
    "language_model": ((*LM, "language_model.yaml"), LM),
    "deep_fusion": (("lm", "fuse", *OF_TWO), ("train",)),
    "several tasks": (("train", "mixture.yaml", *TWICE), ("train",)),
    "transferred": (("train", "rnnsearch.yaml", "--init", "rnnsearch-run"), ("train",)),
    "stopped early": (("train", "rnnsearch.yaml", "--train.epochs", "3", "--train.stop_after", "1",
                       "--train.evaluate_every", "1", "--train.learning_rate", "1e-30"),
                      ("train",)),
    "retrained": (("prune", "rnnsearch-run", *HALF), ("train",)),
    "retrained language model": (("prune", "language_model-run", *HALF), LM),
    "pruned": (("prune", "rnnsearch-run", *HALF[:2]), ()),
    "averaged": (("average", "rnnsearch-run"), ()),
}


def prepare(directory: Path) -> dict[str, Case]:
    """Write a corpus, recipes, and runs that other runs start from; return the case of each
    system."""
    write_corpus(directory, pairs=16)
    (directory / "words.lex").write_text("one\teins\t1.0\n")
    recipe = RECIPE | {"evaluate": {"bleu": False}}
    for name, model in MODELS.items():
        write_recipe(directory / f"{name}.yaml", {**recipe, "model": {"architecture": name}},
                     model=model, data=DATA.get(name, {}), train=TRAIN)
    write_recipe(directory / "language_model.yaml", TEXT_RECIPE, model={**SIZES, "layers": 1},
                 text={"vocabulary": str(directory / "rnnsearch-run" / "target.vocab")},
                 train={"epochs": 1, "keep": 1})
    (directory / "mixture.yaml").write_text(MIXTURE)
    for name, command in (("rnnsearch", ["train"]), ("language_model", LM)):
        assert nmt(*command, directory / f"{name}.yaml", *TWICE, "--train.keep", "2",
                   "--output", directory / f"{name}-run") == 0
    return {name: Case(directory, *commands) for name, commands in COMMANDS.items()}
