"""What goes with the catalogue's cases: labels for reports, facts for oracles."""

from __future__ import annotations

import numpy as np
import pytest

from grads.case import SHAPES
from grads.catalogue import CONFIGURATIONS, ENTRIES, check

BY_NAME = {entry.name: entry for entry in ENTRIES}


AXES = {"time", "batch", "position", "row", "query", "unit", "source unit", "input", "gate",
        "state", "column", "word"}
FACTS = {  # what an oracle is promised, by kind
    "embedding": "ids", "prediction": "targets", "lstm cell": "unit", "rnn cell": "unit",
    "gru cell": "unit T_h", "deep layer": "", "deep output": "", "first state": "",
    "context decoder": "unit ids lengths dead", "rnnsearch": "config batch",
    "step": "unit", "sequence": "unit reverse lengths dead",
    "stack": "unit layers bidirectional lengths dead masks", "map": "", "memory": "score",
    "softmax": "lengths", "tanh score": "", "position": "lengths", "nearness": "columns D",
    "look": "way t lengths dead",
    "language model": "config vocabulary ids targets states masks out_mask",
    "attend": "lengths dead", "attentional": "", "bridge": "config",
    "encoder": "config ids lengths dead masks", "output": "targets lengths dead",
    "decoder": "config ids lengths dead masks joined_mask",
    "translator": "config vocabulary reverse batch source_ids lengths dead target_in target_out "
                  "target_lengths target_dead encoder_masks decoder_masks joined_mask",
}


@pytest.mark.parametrize("name", [entry.name for entry in (*ENTRIES, *CONFIGURATIONS[::29])])
def test_labels_and_facts(name):
    [entry] = [entry for entry in (*ENTRIES, *CONFIGURATIONS) if entry.name == name]
    for shape in entry.shapes:
        case = entry.make(np.random.default_rng(0), SHAPES[shape])
        assert set(case.facts) == set(FACTS[entry.kind].split())
        arrays = {**case.inputs, **case.forward(case.inputs)}
        for tensor, array in arrays.items():
            labels = case.labels[tensor]
            assert set(labels.axes) <= AXES and len(labels.axes) == np.ndim(array), tensor
            covered = np.zeros(np.shape(array), dtype=int)
            for block in labels.blocks:
                assert "," in block.name or covered[block.where].shape == array[block.where].shape
                covered[block.where] += 1
            assert not covered.size or covered.min() == covered.max(), f"{tensor}: {labels.blocks}"


def test_blocks_are_where_the_kernels_have_them():
    """Gate o's rows of T make o: without them the gate stands at one half."""
    case = BY_NAME["lstm step, bias"].make(np.random.default_rng(0), SHAPES["full"])
    blocks = {block.name: block.where for block in case.labels["T"].blocks}
    assert list(blocks)[:6] == ["i", "f", "o", "h_hat", "x", "h"] and len(blocks) == 6 + 8
    [b_o] = [block.where for block in case.labels["b"].blocks if block.name == "o"]
    T, b = case.inputs["T"].copy(), case.inputs["b"].copy()
    T[blocks["o"]], b[b_o] = 0.0, 0.0
    out = case.forward({**case.inputs, "T": T, "b": b})
    np.testing.assert_allclose(out["h"], 0.5 * np.tanh(out["c"]))
    T = case.inputs["T"].copy()
    T[blocks["f, x"]] = 9.0
    assert (T == 9.0).sum() == 2 * 3 and (T[2:4, :3] == 9.0).all()


def test_feeding_has_three_vectors_side_by_side():
    case = BY_NAME["decoder, feeding"].make(np.random.default_rng(0), SHAPES["full"])
    columns = {b.name: b.where[1] for b in case.labels["decoder.0.T"].blocks if b.name in
               ("x", "h~", "h")}
    assert columns == {"x": slice(0, 3), "h~": slice(3, 5), "h": slice(5, 7)}
    assert {"c", "h"} == {b.name for b in case.labels["attention.W_c"].blocks}


@pytest.mark.parametrize("name", ["attend", "decoder, attention", "decoder, feeding"])
def test_attention_to_nobody_gives_nothing(name):
    """No model makes a source of no words, but windows can be empty: the weights are then zero."""
    check(BY_NAME[name], "padding alone").raise_if_wrong()
