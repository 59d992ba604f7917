"""Training over a sampled vocabulary: resumed bit for bit, validated over all words."""

import json
from pathlib import Path

import numpy as np
from tiny_run import nmt, write_corpus, write_recipe

from nmt.training import checkpoint


def test_a_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, pairs=40)
    write_recipe(tmp_path / "r.yaml", model={"target_sample": 1, "sample_weights": "equal"},
                 train={"batch_size": 1, "learning_rate": 1e-4}, evaluate={"bleu": False})
    for name, epochs in (("whole", 2), ("stopped", 1)):
        assert nmt("train", "r.yaml", "--output", name, "--train.epochs", epochs) == 0
    assert nmt("train", "--resume", "stopped", "--train.epochs", "2") == 0
    whole, stopped = (checkpoint.load(Path(name) / "last.safetensors").select(
        checkpoint.PARAMETERS) for name in ("whole", "stopped"))
    assert all(np.array_equal(array, stopped[name]) for name, array in whole.items())
    scores = [json.loads(line) for line in Path("whole", "log.jsonl").read_text().splitlines()]
    epoch = next(record for record in scores if record["event"] == "epoch")
    assert epoch["perplexity"] < 6 < epoch["scores"]["perplexity"]  # over few words, over all 9
