"""Several tasks at once: the batches that are drawn, the parameters that change or are shared, the
schedule's clock."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest

from backend.rows import RowGradient
from nmt.data.batches import TextBatches
from nmt.models.contract import Losses
from nmt.models.parametrization import Parametrized, Tied
from nmt.models.translator import ModelConfig, Translator
from nmt.training.batch_source import Training
from nmt.training.meter import Meter
from nmt.training.optimizers import SGD, Adadelta, Adam
from nmt.training.options import TrainOptions
from nmt.training.run import Run
from nmt.training.tasks import Mixture, Several, of_task, part_of, shared
from nmt.training.trainer import Trainer

SIZES = {"one": 7, "two": 3, "three": 2}  # batches of each
RATIOS = {"one": 1.0, "two": 2.5, "three": 0.25}


def source(batches, seed=0, size=4, vocabulary=6):
    rng = np.random.default_rng(seed)
    pairs = [(rng.integers(2, vocabulary, rng.integers(1, 5)).tolist(),
              rng.integers(2, vocabulary, rng.integers(1, 5)).tolist())
             for _ in range(batches * size)]
    return TextBatches(pairs, size, True, 2)


def mixture(ratios=RATIOS, sizes=SIZES):
    return Mixture({name: source(n, n) for name, n in sizes.items() if name in ratios}, ratios)


def numbers(keys):
    return sorted(int(i) for key in keys for i in key)


# --- the mixture ----------------------------------------------------------------------------------


def test_an_epoch_has_each_batch_of_the_reference_once_and_ends_with_its_last():
    mixed, rng = mixture(), np.random.default_rng(1)
    for _ in range(20):
        keys = mixed.epoch(rng)
        assert keys[-1][0] == "one"
        assert numbers(key for name, key in keys if name == "one") == list(range(28))


def test_other_tasks_take_the_first_of_a_fresh_shuffle_and_then_of_further_ones():
    mixed, rng = mixture(), np.random.default_rng(1)
    for _ in range(5):
        keys = [key for name, key in mixed.epoch(rng) if name == "two"]
        for first in range(0, len(keys) - 2, 3):
            assert numbers(keys[first : first + 3]) == list(range(12))  # a whole shuffle
        rest = numbers(keys[len(keys) // 3 * 3 :])
        assert len(set(rest)) == len(rest)


def test_tasks_are_drawn_by_their_ratios():
    mixed, rng, drawn = mixture(), np.random.default_rng(1), Counter()
    for _ in range(400):
        drawn.update(name for name, _ in mixed.epoch(rng))
    assert drawn["one"] == 400 * 7  # N
    for name in ("two", "three"):  # about alpha_i N: within five standard deviations
        expected = RATIOS[name] * drawn["one"]
        assert abs(drawn[name] - expected) < 5 * math.sqrt(expected * (1 + RATIOS[name]))


def test_everything_an_epoch_draws_comes_from_the_one_generator():
    mixed, rng = mixture(), np.random.default_rng(1)
    state = rng.bit_generator.state
    first = mixed.epoch(rng)
    rng.bit_generator.state = state
    again = mixture().epoch(rng)
    assert [name for name, _ in first] == [name for name, _ in again]
    for (_, key), (_, other) in zip(first, again, strict=True):
        np.testing.assert_array_equal(key, other)


def test_alone_the_reference_is_as_it_is_without_a_mixture():
    rng, other = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(3):
        keys = mixture({"one": 1.0}).epoch(rng)
        for (name, key), expected in zip(keys, source(7, 7).epoch(other), strict=True):
            assert name == "one"
            np.testing.assert_array_equal(key, expected)


def test_the_clock_is_the_reference_s():
    keys = [("one", 0), ("two", 0), ("two", 1), ("one", 1), ("three", 0), ("one", 2)]
    np.testing.assert_array_equal(mixture().clock(keys), [0, 1, 1, 1, 2, 2, 3])


def test_a_batch_names_its_task_and_counts_for_it():
    mixed = Mixture({"one": source(2), "two": source(2, size=3)}, {"one": 1.0, "two": 1.0})
    batch = mixed.batch(("two", np.array([0, 2])))
    assert batch.task == "two" and mixed.weight(batch) == 2
    assert mixed.tokens(batch) == int(batch.target.lengths.sum())


# --- the model ------------------------------------------------------------------------------------


def translator(**options):
    return Translator(ModelConfig(**{"layers": 1, "hidden_size": 3, "embedding_size": 2,
                                     "attention": "none", "input_feeding": False, **options}), 6, 6)


def many_to_many(dropout=0.0):
    """Translation and two autoencoders: Figure 6.4."""
    models = {name: translator(dropout=dropout if name == "de" else 0.0)
              for name in ("de-en", "de", "en")}
    groups = {"encoder": [["de-en", "de"]], "decoder": [["de-en", "en"]]}
    return Parametrized(Several(models), shared(models, groups))


def test_shared_parameters_are_stored_once_under_the_first_task_s_name():
    model = many_to_many()
    assert model.table["de/encoder.W_e"] == Tied("de-en/encoder.W_e")
    assert set(model.weights()) == {
        f"{task}/{name}" for task, parts in (
            ("de-en", ("encoder", "decoder")), ("de", ("decoder",)), ("en", ("encoder",)))
        for name in translator().weights() if part_of(name) in parts}


def test_a_decoder_s_output_layer_and_attention_go_with_it():
    names = [*translator(attention="global", bridge=True, bidirectional=True, hidden_size=4,
                         input_feeding=True).weights(), "source_characters.0.W",
             "target_characters.W_c"]
    parts = {name.split(".")[0]: part_of(name) for name in names}
    assert parts == {"encoder": "encoder", "source_characters": "encoder", "bridge": "decoder",
                     "decoder": "decoder", "attention": "decoder", "output": "decoder",
                     "target_characters": "decoder"}


@pytest.mark.parametrize("optimizer", [SGD(0.5), Adam(0.1), Adadelta(1.0)],
                         ids=lambda optimizer: type(optimizer).__name__)
@pytest.mark.parametrize("task, moved", [
    ("de-en", {"de-en/encoder", "de-en/decoder", "de-en/output"}),
    ("de", {"de-en/encoder", "de/decoder", "de/output"}),
    ("en", {"en/encoder", "de-en/decoder", "de-en/output"})])
def test_after_an_update_of_one_task_only_its_parameters_have_moved(optimizer, task, moved):
    model = many_to_many()
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    mixed = Mixture({name: source(3, place) for place, name in enumerate(("de-en", "de", "en"))},
                    dict.fromkeys(("de-en", "de", "en"), 1.0))
    optimizer = type(optimizer)(optimizer.learning_rate)  # with state for all, from before
    for key in mixed.epoch(np.random.default_rng(2)):
        _, cache = model.loss(parameters, mixed.batch(key))
        optimizer.update(parameters, model.backward(cache))
    before = {name: array.copy() for name, array in parameters.items()}
    _, cache = model.loss(parameters, mixed.batch((task, np.arange(4))))
    optimizer.update(parameters, model.backward(cache))
    changed = {name for name in parameters if not np.array_equal(parameters[name], before[name])}
    assert changed == {name for name in parameters if ".".join(name.split(".")[:1]) in moved}


def test_dropout_is_each_task_s_own():
    model, mixed = many_to_many(dropout=0.4), Mixture({"de": source(2)}, {"de": 1.0})
    batch = mixed.batch(("de", np.arange(4)))
    rng = np.random.default_rng(1)
    assert model.noise(batch, rng, "float32")
    assert model.noise(Mixture({"en": source(2)}, {"en": 1.0}).batch(("en", np.arange(4))), rng,
                       "float32") is None


def test_the_gradient_of_a_shared_parameter_is_the_sum_over_tasks():
    model = many_to_many()
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    plain, single = model.plain(parameters), translator()
    batches = {name: Mixture({name: source(1, seed)}, {name: 1.0}).batch((name, np.arange(4)))
               for seed, name in enumerate(("de-en", "de"))}
    total = np.zeros_like(parameters["de-en/encoder.0.W"])
    for batch in batches.values():
        total += model.backward(model.loss(parameters, batch)[1])["de-en/encoder.0.W"]
    alone = sum(single.backward(single.loss(of_task(name, plain), batch)[1])["encoder.0.W"]
                for name, batch in batches.items())
    np.testing.assert_array_equal(total, alone)
    rows = model.backward(model.loss(parameters, batches["de"])[1])["de-en/encoder.W_e"]
    assert isinstance(rows, RowGradient)  # shared tables keep their rows


def test_private_units_are_a_share_of_each_gate():
    """Nguyen 4.3: one of three units is private in every gate; embeddings are shared."""
    models = {"a": translator(), "b": translator()}
    model = Parametrized(Several(models), shared(models, {"encoder": [["a", "b"]]}, 0.34))
    weights = model.weights()
    assert weights["a/encoder.0.W.shared"].shape == (8, 5)
    assert {f"{task}/encoder.0.W.private" for task in models} < weights.keys()
    assert weights["b/encoder.0.W.private"].shape == (4, 5) and "a/encoder.0.W" not in weights
    made = model.plain(model.initial_parameters(np.random.default_rng(0), "float64"))
    a, b = (made[f"{task}/encoder.0.W"].reshape(4, 3, 5) for task in models)
    np.testing.assert_array_equal(a[:, :2], b[:, :2])
    assert (a[:, 2] != b[:, 2]).all()
    assert made["a/encoder.W_e"] is made["b/encoder.W_e"]
    with pytest.raises(ValueError, match=r"private: expected a fraction that leaves some of"):
        shared(models, {"encoder": [["a", "b"]]}, 0.1)


@pytest.mark.parametrize("other, message", [
    ({"hidden_size": 4}, r"encoder: expected the same parameters in a and b, got encoder\.0\.W of "
                         r"shape \(12, 5\) in a, of shape \(16, 6\) in b"),
    ({"layers": 2}, r"encoder\.1\.W none in a, of shape \(12, 6\) in b")])
def test_parts_of_unlike_shapes_are_named(other, message):
    models = {"a": translator(), "b": translator(**other)}
    with pytest.raises(ValueError, match=message):
        shared(models, {"encoder": [["a", "b"]]})


# --- the trainer ----------------------------------------------------------------------------------


def train(directory, epochs, **options):
    models = {"one": translator(), "two": translator()}
    model = Parametrized(Several(models), shared(models, {"encoder": [["one", "two"]]}))
    parameters = model.initial_parameters(np.random.default_rng(1))
    mixed = Mixture({"one": source(8, 1), "two": source(5, 2)}, {"one": 1.0, "two": 1.5})
    options = TrainOptions(epochs=epochs, batch_size=4, log_every=1, learning_rate=1.0,
                           schedule="thesis", halve_after=1, halve_every=0.5, **options)
    Trainer(model, parameters, Training(mixed), options, Run(directory)).train()
    return [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]


def test_the_learning_rate_goes_by_the_reference_s_updates(tmp_path):
    records = [r for r in train(tmp_path, 2) if r["event"] == "update"]
    done = 0  # updates of the reference
    for record in records:
        assert record["learning_rate"] == 0.5 ** max(0, (done - 8) // 4 + 1)
        done += "one" in record["tasks"]
    assert done == 16 and "one" in records[-1]["tasks"]


def test_training_ends_at_the_reference_s_last_update_in_a_part_of_an_epoch_too(tmp_path):
    records = [r for r in train(tmp_path, 1.25) if r["event"] == "update"]
    assert sum("one" in r["tasks"] for r in records) == 8 + 2 and "one" in records[-1]["tasks"]


def test_perplexity_is_each_task_s_and_never_the_mixture_s(tmp_path):
    updates, (epoch,) = (lambda records: ([r for r in records if r["event"] == "update"],
                                          [r for r in records if r["event"] == "epoch"]))(
        train(tmp_path, 1))
    assert not {"loss", "perplexity"} & ({*epoch} | {*updates[0]})
    for task, facts in epoch["tasks"].items():
        windows = [r["tasks"][task] for r in updates if task in r["tasks"]]
        tokens = sum(window["target_tokens"] for window in windows)
        assert facts["updates"] == len(windows) and facts["target_tokens"] == tokens
        nats = sum(window["loss"] * window["target_tokens"] for window in windows)
        assert facts["perplexity"] == pytest.approx(math.exp(nats / tokens))


def test_a_meter_goes_on_where_it_was_saved():
    saved, resumed = Meter(np), Meter(np)
    saved.add(np.float64(3.0), 1.0, 2, "a")
    saved.close_window()
    saved.add(np.float64(5.0), 1.0, 4, "b")
    resumed.load(json.loads(json.dumps(saved.state())))
    for meter in (saved, resumed):
        meter.add(np.float64(1.0), 1.0, 2, "a")
        assert set(meter.close_window()["tasks"]) == {"a", "b"}
    facts, again = saved.close_epoch(), resumed.close_epoch()
    assert facts["tasks"] == again["tasks"] and facts["tasks"]["a"]["loss"] == 1.0


def test_a_meter_knows_the_length_s_part_and_the_states_of_older_runs():
    """In nats per token, of the window and of the epoch; states without it begin at zero."""
    parts = Losses(np.float64(5.0), lengths=np.float64(2.0))
    saved, resumed = Meter(np), Meter(np)
    saved.add(np.float64(6.0), 1.0, 4, parts=parts)
    state = saved.state()
    resumed.load(json.loads(json.dumps(state)))
    for meter in (saved, resumed):
        facts = meter.close_window()
        assert (facts["loss"], facts["objective"], facts["length_loss"]) == (1.25, 1.5, 0.5)
        assert meter.close_epoch()["length_loss"] == 0.5
    for numbers, objective in ((8, 1.5), (6, None)):
        older = Meter(np)
        older.load({**state, "tasks": {"": state["tasks"][""][:numbers]}})
        facts = older.close_window()
        assert facts["loss"] == 1.25 and facts.get("objective") == objective
        assert "length_loss" not in facts
