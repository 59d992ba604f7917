"""The training loop on a tiny softmax model: exact resume, NaN, log, checkpoints, Ctrl-C."""

import json
import math
import os
import signal
import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from strict.module import strict, to_strict
from tiny_run import Crash, CrashAt

import backend
from backend import array_module, to_device
from backend.errors import UserError
from backend.rows import gather_rows, row_index, sum_rows
from nmt.console.command import Terminated
from nmt.data.batches import Batch, Side
from nmt.models.contract import Losses
from nmt.training import checkpoint
from nmt.training.batch_source import Training
from nmt.training.optimizers import gradient_scale
from nmt.training.options import TrainOptions
from nmt.training.progress import Observer
from nmt.training.run import BEST, LAST, LOG, Run, saved_step
from nmt.training.trainer import Trainer

WORDS, CLASSES, SIZE, EXAMPLES = 11, 4, 6, 30


class SoftmaxCache(NamedTuple):
    losses: Losses
    state: None
    operands: Any


class SoftmaxModel:
    """p(y | x) = softmax(W dropout(W_e[x]) + b)."""

    def initial_parameters(self):
        rng = np.random.default_rng(3)
        shapes = {"W_e": (WORDS, SIZE), "W": (CLASSES, SIZE), "b": (CLASSES,)}
        return {name: rng.uniform(-0.5, 0.5, s).astype(np.float32) for name, s in shapes.items()}

    def noise(self, batch, rng, dtype):
        kept = rng.random((len(batch.indices), SIZE)) > 0.3
        return {"h": to_device((kept / 0.7).astype(dtype))}

    def loss(self, parameters, batch, noise=None):
        xp = array_module(parameters["W"])
        [x], [y] = batch.target_in, batch.target_out
        mask = to_device(np.ones((len(x), SIZE), np.float32)) if noise is None else noise["h"]
        index = row_index(x)
        h = gather_rows(parameters["W_e"], index.ids) * mask
        logits = h @ parameters["W"].T + parameters["b"]
        p = xp.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        one_hot = to_device(np.eye(CLASSES, dtype=np.float32)[y])
        loss = -xp.log((p * one_hot).sum(axis=1)).sum()
        return loss, SoftmaxCache(Losses(loss), None, (parameters, index, mask, h, p - one_hot))

    def backward(self, cache):
        parameters, index, mask, h, ds = cache.operands
        return {"b": ds.sum(axis=0), "W": ds.T @ h,
                "W_e": sum_rows((ds @ parameters["W"]) * mask, index, WORDS)}


class Source:
    """Thirty examples, y a function of x, in batches of four and a last one of two."""

    def __init__(self):
        self.x = np.random.default_rng(5).integers(0, WORDS, EXAMPLES)
        self.served = 0

    def epoch(self, rng):
        order = rng.permutation(EXAMPLES)
        return [order[i:i + 4] for i in range(0, EXAMPLES, 4)]

    def clock(self, keys):
        return np.arange(len(keys) + 1)

    def batch(self, key):
        self.served += 1
        return batch_of(self.x[key], key)

    def tokens(self, batch):
        return batch.target_out.size

    def weight(self, batch):
        return len(batch.indices)


def batch_of(x, indices):
    """x read, and y to predict."""
    return Batch((), Side(np.stack([x, x % CLASSES]), np.ones(len(x), int)), indices)


def validate(parameters):
    """Perplexity over the training data without dropout."""
    source = Source()
    loss, _ = SoftmaxModel().loss(parameters, batch_of(source.x, np.arange(EXAMPLES)))
    return {"perplexity": math.exp(float(backend.to_host(loss)) / EXAMPLES)}


TIMES = ("target_tokens_per_second", "elapsed_seconds", "cpu_seconds")
OPTIONS = {"epochs": 4, "learning_rate": 0.5, "halve_after": 2, "log_every": 3, "max_norm": 0.4}


def trainer(directory, source=None, model=None, observer=None, validate=validate, parameters=None,
            **changes):
    model = model or SoftmaxModel()
    return Trainer(model, parameters or model.initial_parameters(),
                   Training(source or Source(), validate), TrainOptions(**{**OPTIONS, **changes}),
                   Run(directory, metadata={"name": "softmax"}), observer)


def records(directory, event="update"):
    lines = (directory / LOG).read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["event"] == event]


def without_time(records):
    return [{name: value for name, value in record.items()
             if name not in TIMES} for record in records]


class InterruptAt(Observer):
    """Sends Ctrl-C after the update with this number."""

    def __init__(self, step):
        self.step = step

    def on_batch(self, progress):
        if progress.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def resumed(directory, source=None, **changes):
    """The run in a directory, resumed until its end."""
    again = trainer(directory, source, **changes)
    again.resume()
    again.train()
    return again


def whole_and_resumed(tmp_path, observer, **changes):
    """A run in `whole`, and one in `cut` that its observer stopped: both write the same. It returns
    how many batches were read after the stop."""
    expected, source = trainer(tmp_path / "whole", **changes), Source()
    expected.train()
    with pytest.raises((KeyboardInterrupt, Crash)):
        trainer(tmp_path / "cut", observer=observer, **changes).train()
    assert resumed(tmp_path / "cut", source, **changes).counters == expected.counters
    for file in (LAST, BEST):
        assert_equal(checkpoint.load(tmp_path / "cut" / file).arrays,
                     checkpoint.load(tmp_path / "whole" / file).arrays)
    for event in ("update", "evaluation", "epoch"):
        assert without_time(records(tmp_path / "cut", event)) \
            == without_time(records(tmp_path / "whole", event))
    return source.served


def test_the_loop_is_equation_2_9(tmp_path):
    """One epoch equals the same updates written out."""
    model, source = SoftmaxModel(), Source()
    expected = model.initial_parameters()
    dropout = np.random.default_rng([1, 1])
    for key in source.epoch(np.random.default_rng([1, 0])):
        batch = source.batch(key)
        noise = model.noise(batch, dropout, "float32")
        gradients = model.backward(model.loss(expected, batch, noise)[1])
        gradients["W_e"] = gradients["W_e"].dense()
        scale = float(gradient_scale(gradients, len(key), 0.4)[0])
        for name, gradient in gradients.items():
            expected[name] = expected[name] - 0.5 * scale * gradient
    t = trainer(tmp_path, epochs=1)
    t.train()
    for name, array in t.parameters.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5)


def test_a_gradient_is_divided_by_the_weight_that_the_source_gives(tmp_path):
    """Twice the weight is half the learning rate."""
    source = Source()
    source.weight = lambda batch: 2 * len(batch.indices)
    heavy = trainer(tmp_path / "heavy", source, max_norm=None)
    light = trainer(tmp_path / "light", learning_rate=0.25, max_norm=None)
    heavy.train()
    light.train()
    for name, array in heavy.parameters.items():
        np.testing.assert_allclose(array, light.parameters[name], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_is_drawn_once_an_update_in_the_parameters_dtype(tmp_path, dtype):
    """The loss gets the noise as it was drawn."""
    drawn = []

    class Watched(SoftmaxModel):
        def noise(self, batch, rng, dtype):
            drawn.append(super().noise(batch, rng, dtype))
            return drawn[-1]

        def loss(self, parameters, batch, noise=None):
            assert noise is drawn[-1] and noise["h"].shape == (len(batch.indices), SIZE)
            return super().loss(parameters, batch, noise)

    parameters = {name: array.astype(dtype)
                  for name, array in SoftmaxModel().initial_parameters().items()}
    trainer(tmp_path, model=Watched(), parameters=parameters, epochs=1).train()
    assert len(drawn) == 8 and {noise["h"].dtype for noise in drawn} == {np.dtype(dtype)}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("stop", [1, 8, 13, 16, 31])  # first update, epoch's end, between, ...
def test_resume_is_exact(tmp_path, optimizer, stop):
    assert whole_and_resumed(tmp_path, InterruptAt(stop), optimizer=optimizer) == 32 - stop


def test_the_moving_average_is_what_is_validated_and_saved(tmp_path):
    """Kingma and Ba, 7.2, from zeros and corrected; training goes on without it."""
    beta, seen = 0.8, []

    class Kept(Observer):
        def on_batch(self, progress):
            seen.append({name: array.copy() for name, array in averaging.parameters.items()})

    plain = trainer(tmp_path / "plain", epochs=2)
    plain.train()
    averaging = trainer(tmp_path / "average", epochs=2, moving_average=beta, observer=Kept())
    averaging.train()
    assert_equal(averaging.parameters, plain.parameters)
    total = {name: np.zeros(array.shape) for name, array in plain.parameters.items()}
    for theta in seen:
        total = {name: beta * sums + (1 - beta) * theta[name] for name, sums in total.items()}
    expected = {name: sums / (1 - beta ** len(seen)) for name, sums in total.items()}
    saved = checkpoint.load(tmp_path / "average" / LAST)
    for name, array in saved.select(checkpoint.PARAMETERS).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-7)
        assert (array != plain.parameters[name]).any()
    assert_equal(saved.select(checkpoint.TRAINED), plain.parameters)
    best = checkpoint.load(tmp_path / "average" / BEST)
    assert not best.select(checkpoint.TRAINED)
    assert best.metadata["scores"] == validate(best.select(checkpoint.PARAMETERS))
    last = records(tmp_path / "average", "epoch")[-1]
    assert last["scores"] == validate(saved.select(checkpoint.PARAMETERS))


def test_a_resume_goes_on_with_the_moving_average(tmp_path):
    changes = {"optimizer": "adam", "weight_decay": 0.1, "beta1": 0.7, "moving_average": 0.9}
    whole_and_resumed(tmp_path, InterruptAt(13), **changes)
    with pytest.raises(UserError, match=r"moving_average: was 0\.9, now 0\.5"):
        trainer(tmp_path / "cut", **{**changes, "moving_average": 0.5}).resume()


def test_the_rate_can_halve_within_an_epoch_and_a_resume_knows_where(tmp_path):
    whole_and_resumed(tmp_path, InterruptAt(21), halve_every=0.5, log_every=1)  # in a quarter
    rates = [record["learning_rate"] for record in records(tmp_path / "whole")]
    assert rates == [0.5] * 16 + [0.5 ** n for n in (2, 3, 4, 5) for _ in range(4)]


def test_a_part_of_an_epoch(tmp_path):
    """2.2 epochs as Bahdanau's Table 2 counts: 8 + 8 + 2 updates, validated at the end."""
    whole_and_resumed(tmp_path, InterruptAt(17), epochs=2.2, log_every=1)
    assert [record["step"] for record in records(tmp_path / "whole", "epoch")] == [8, 16, 18]
    with pytest.raises(UserError, match=r"other options: epochs: was 2\.2, now 5"):
        trainer(tmp_path / "cut", epochs=5, log_every=1).resume()


def test_resume_after_a_crash_goes_back_to_the_checkpoint(tmp_path):
    """The log has lines of updates after the checkpoint, and an incomplete line; both are
    removed."""
    expected = trainer(tmp_path / "whole", checkpoint_every=5)
    expected.train()
    with pytest.raises(Crash):
        trainer(tmp_path / "cut", checkpoint_every=5, observer=CrashAt(14)).train()
    assert records(tmp_path / "cut")[-1]["step"] == 12
    with open(tmp_path / "cut" / LOG, "a") as file:
        file.write('{"event": "upd')
    source = Source()
    cut = resumed(tmp_path / "cut", source, checkpoint_every=5)
    assert_equal(cut.parameters, expected.parameters)
    assert source.served == 32 - 10
    assert without_time(records(tmp_path / "cut")) == without_time(records(tmp_path / "whole"))


def test_resume_after_a_crash_at_the_end_of_an_epoch(tmp_path):
    """The epoch's line is written, its checkpoint is not: the line must not come twice."""
    class CrashInEpoch(Observer):
        def on_epoch(self, epoch, facts, scores, improved):
            raise Crash

    with pytest.raises(Crash):
        trainer(tmp_path, checkpoint_every=8, observer=CrashInEpoch()).train()
    assert len(records(tmp_path, "epoch")) == 1
    resumed(tmp_path)
    assert [record["epoch"] for record in records(tmp_path, "epoch")] == [1, 2, 3, 4]


EVALUATED = {"evaluate_every": 3, "schedule": "plateau", "plateau_patience": 2, "epochs": 6,
             "learning_rate": 30.0, "plateau_factor": 0.25}


@pytest.mark.parametrize("stop", [1, 6, 8, 14, 24])  # 6: after an evaluation; 8: an epoch's end
def test_evaluation_by_updates_resumes_exactly(tmp_path, stop):
    """Evaluations after updates 3, 6, ...; patience counts them, epochs have none."""
    whole_and_resumed(tmp_path, InterruptAt(stop), **EVALUATED)
    evaluations = records(tmp_path / "whole", "evaluation")
    assert [evaluation["step"] for evaluation in evaluations] == [*range(3, 49, 3)]
    assert [epoch["scores"] for epoch in records(tmp_path / "whole", "epoch")] == [{}] * 6


def test_the_plateau_and_the_best_go_by_evaluations(tmp_path):
    """The rate falls at the second evaluation in a row without a new best, wherever it is in an
    epoch."""
    trainer(tmp_path, log_every=1, **EVALUATED).train()
    best, waited, rate, expected = math.inf, 0, 30.0, []
    for evaluation in records(tmp_path, "evaluation"):
        expected += [rate] * 3
        score = evaluation["scores"]["perplexity"]
        assert evaluation["improved"] == (score < best)
        waited = 0 if score < best else waited + 1
        best = min(best, score)
        if waited == 2:
            rate, waited = rate * 0.25, 0
    assert [update["learning_rate"] for update in records(tmp_path)] == expected
    assert rate < 30.0
    saved = checkpoint.load_metadata(tmp_path / BEST)
    assert saved["scores"] == {"perplexity": best} and saved["step"] % 3 == 0
    assert saved["epoch"] == (saved["step"] - 1) // 8  # those that were over


def test_training_ends_after_so_many_evaluations_without_a_best(tmp_path):
    """It ends at once, within an epoch; a resumed run does not continue."""
    changes = {"evaluate_every": 3, "stop_after": 2, "learning_rate": 1e-20, "epochs": 9}
    counters = trainer(tmp_path, **changes).train()
    assert (counters.step, counters.epoch, counters.position) == (9, 2, 1)  # the first is the best
    assert resumed(tmp_path, **changes).counters == counters
    by_epochs = trainer(tmp_path / "epochs", **{**changes, "evaluate_every": 0}).train()
    assert (by_epochs.step, by_epochs.epoch) == (24, 4)


def test_resume_refuses_other_options_and_other_models(tmp_path):
    trainer(tmp_path, epochs=1).train()
    with pytest.raises(UserError, match=r"learning_rate: was 0\.5, now 0\.25; seed: was 1, "):
        trainer(tmp_path, learning_rate=0.25, seed=2).resume()
    other = {**SoftmaxModel().initial_parameters(), "b": np.zeros(5, np.float32)}
    with pytest.raises(UserError, match="'b': the model expects shape"):
        trainer(tmp_path, parameters=other).resume()
    os.replace(tmp_path / BEST, tmp_path / LAST)
    with pytest.raises(UserError, match="found parameters only"):
        trainer(tmp_path).resume()


def test_another_run_is_not_overwritten(tmp_path):
    trainer(tmp_path, epochs=1).train()
    with pytest.raises(UserError, match="a training run is here already"):
        trainer(tmp_path, epochs=1).train()


class Poisoned(SoftmaxModel):
    """One value of one gradient turns bad at the n-th backward."""

    def __init__(self, step, name, value):
        self.step, self.name, self.value = step, name, value

    def backward(self, cache):
        gradients = super().backward(cache)
        self.step -= 1
        if self.step == 0:
            gradient = gradients[self.name]
            rows = gradient.values if self.name == "W_e" else gradient
            rows[(0,) * rows.ndim] = self.value
        return gradients


@pytest.mark.parametrize("name, value", [("W", np.nan), ("W_e", np.inf), ("b", -np.inf)])
def test_a_bad_gradient_stops_before_the_update(tmp_path, name, value):
    t = trainer(tmp_path, model=Poisoned(14, name, value), checkpoint_every=13)
    with pytest.raises(UserError, match=f"update 14: the gradient of '{name}' is not finite; .*"
                                        "last.safetensors holds the state after update 13"):
        t.train()
    saved = checkpoint.load(tmp_path / LAST)
    assert saved.metadata["training"]["counters"]["step"] == 13
    assert_equal(saved.select("parameters/"), t.parameters)  # not even touched by the bad update
    assert all(np.isfinite(array).all() for array in saved.arrays.values())


def test_a_bad_parameter_is_named(tmp_path):
    parameters = SoftmaxModel().initial_parameters()
    parameters["W"][1, 1] = np.nan
    with pytest.raises(UserError, match=r"update 0: parameter 'W' .*; no update was saved"):
        trainer(tmp_path, parameters=parameters).train()


class BadAfter(Observer):
    """Makes a parameter NaN after an update, as a bug in a kernel might."""

    def on_batch(self, progress):
        if progress.step == 8:
            self.parameters["b"][0] = np.nan


def test_bad_parameters_are_never_saved(tmp_path):
    observer = BadAfter()
    t = trainer(tmp_path, observer=observer)
    observer.parameters = t.parameters
    with pytest.raises(UserError, match="parameter 'b' is not finite"):
        t.train()
    assert saved_step(tmp_path) == 0 and not (tmp_path / BEST).exists()


@pytest.fixture
def device():
    strict.install()
    with backend.using(strict):
        yield


def test_on_a_device_it_waits_only_for_the_log(tmp_path, device):
    """The stand-in for CuPy gives the same numbers; the loss is fetched once per window."""
    host = trainer(tmp_path / "host", epochs=1)
    with backend.using("numpy"):
        host.train()
    model = SoftmaxModel()
    fetched = []

    class Count(Observer):
        def on_batch(self, progress):
            fetched.append(strict.counts.to_host)

    t = trainer(tmp_path / "device", parameters=to_strict(model.initial_parameters()), epochs=1,
                log_every=4, validate=None, observer=Count())
    strict.counts.reset()
    t.train()
    assert fetched[0] == fetched[2] < fetched[3] == fetched[6]
    for name, array in t.parameters.items():
        np.testing.assert_allclose(backend.to_host(array), host.parameters[name], rtol=1e-5)


def test_on_a_device_a_bad_value_is_found_at_the_next_line_of_the_log(tmp_path, device):
    model = Poisoned(6, "W", np.nan)
    t = trainer(tmp_path, parameters=to_strict(model.initial_parameters()), model=model,
                log_every=4, validate=None)
    with pytest.raises(UserError, match="update 8: parameter 'W_e' is not finite"):
        t.train()


def test_log(tmp_path):
    trainer(tmp_path).train()
    updates, epochs = records(tmp_path), records(tmp_path, "epoch")
    steps = [record["step"] for record in updates]
    assert steps == [3, 6, 8, 9, 12, 15, 16, 18, 21, 24, 27, 30, 32]
    assert [record["learning_rate"] for record in updates[::3]] == [0.5, 0.5, 0.5, 0.25, 0.125]
    assert [record["epoch"] for record in epochs] == [1, 2, 3, 4]
    for record in updates:
        assert record["perplexity"] == pytest.approx(math.exp(record["loss"]))
        assert record["gradient_norm"] > 0 and record["target_tokens_per_second"] > 0
    first = updates[:3]
    assert [record["target_tokens"] for record in first] == [12, 12, 6]  # they make up the epoch
    assert epochs[0]["loss"] == pytest.approx(np.dot([r["loss"] for r in first], [12, 12, 6]) / 30)
    assert epochs[-1]["elapsed_seconds"] == updates[-1]["elapsed_seconds"]


@pytest.mark.parametrize("every", [0, 1])  # an epoch's end, each update
def test_validation_does_not_count_as_training_time(tmp_path, monkeypatch, every):
    late = []

    def slow(parameters):
        late.append(1000.0)
        return validate(parameters)

    real = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: real() + sum(late))
    monkeypatch.setattr(time, "process_time", lambda: sum(late))
    trainer(tmp_path, validate=slow, evaluate_every=every).train()
    assert records(tmp_path)[-1]["elapsed_seconds"] < 1000
    assert late and records(tmp_path)[-1]["cpu_seconds"] == 0


class Counting(Source):
    """Counts the updates, since each asks for its batch's tokens once."""

    updates = 0

    def tokens(self, batch):
        self.updates += 1
        return super().tokens(batch)


def cpu_seconds(folder):
    return [record["cpu_seconds"] for record in records(folder)]


def test_cpu_time_is_counted_and_goes_on_after_an_interruption(tmp_path, monkeypatch):
    """Every update takes half a second of it."""
    source = Counting()
    monkeypatch.setattr(time, "process_time", lambda: 0.5 * source.updates)
    trainer(tmp_path / "whole", source).train()
    assert cpu_seconds(tmp_path / "whole") == [0.5 * r["step"] for r in records(tmp_path / "whole")]
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "cut", source, observer=InterruptAt(13)).train()
    resumed(tmp_path / "cut", source)
    assert cpu_seconds(tmp_path / "cut") == cpu_seconds(tmp_path / "whole")


def test_a_run_of_before_cpu_time_was_counted_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, observer=InterruptAt(13)).train()
    saved = checkpoint.load(tmp_path / LAST)
    meter = saved.metadata["training"]["meter"]
    [loss, tokens, _, epoch_loss, epoch_tokens, *_] = meter["tasks"][""]
    window, total = meter["window_seconds"][0], meter["seconds"][0]
    saved.metadata["training"]["meter"] = {"window": [loss, tokens, window], "seconds": total,
                                           "epoch": [epoch_loss, epoch_tokens]}
    checkpoint.save(tmp_path / LAST, saved.arrays, saved.metadata)
    resumed(tmp_path)
    assert 0 < cpu_seconds(tmp_path)[-1] < 1000


def test_best_follows_the_criterion(tmp_path):
    scores = iter([3.0, 5.0, 4.0, float("nan")])
    seen = []

    def bleu(parameters):
        seen.append({name: array.copy() for name, array in parameters.items()})
        return {"bleu": next(scores), "perplexity": 1.0}

    t = trainer(tmp_path, validate=bleu, criterion="bleu")
    assert t.train().best == 5.0
    best = checkpoint.load(tmp_path / BEST)
    assert_equal(best.select("parameters/"), seen[1])
    assert best.metadata == {"model": {"name": "softmax"}, "epoch": 2, "step": 16,
                             "scores": {"bleu": 5.0, "perplexity": 1.0}}
    assert [record["improved"] for record in records(tmp_path, "epoch")] == [True, True, False,
                                                                            False]


def test_plateau_ends_training(tmp_path):
    t = trainer(tmp_path, validate=lambda parameters: {"perplexity": 2.0}, schedule="plateau",
                plateau_patience=1, plateau_factor=0.5, plateau_minimum=0.2, epochs=99)
    assert t.train().epoch == 4  # epochs at 0.5, 0.5, 0.25, then 0.125 is too small


def test_no_data(tmp_path):
    source = Source()
    source.epoch = lambda rng: []
    with pytest.raises(UserError, match="expected at least 1 batches, got 0"):
        trainer(tmp_path, source).train()


def test_ctrl_c_is_handed_back_and_the_observer_closed(tmp_path):
    class Closing(InterruptAt):
        closed = False

        def close(self):
            self.closed = True

    before, observer = signal.getsignal(signal.SIGINT), Closing(2)
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, observer=observer).train()
    assert observer.closed and signal.getsignal(signal.SIGINT) is before


def test_second_ctrl_c_stops_at_once(tmp_path):
    class Twice(Observer):
        def on_batch(self, progress):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped at once; no update was saved"):
        trainer(tmp_path, observer=Twice()).train()
    assert saved_step(tmp_path) == 0
    with pytest.raises(KeyboardInterrupt, match="after update 5"):
        resumed(tmp_path, checkpoint_every=5, observer=InterruptAt(5))
    with pytest.raises(KeyboardInterrupt,
                       match=f"stopped at once; {tmp_path}/{LAST} holds the state after update 5$"):
        resumed(tmp_path, observer=Twice())


@pytest.mark.parametrize("changes", [{}, {"optimizer": "adam"}, {"moving_average": 0.9}])
def test_a_run_that_was_killed_before_its_first_update_is_resumed(tmp_path, changes):
    """From the checkpoint that it begins with."""
    whole_and_resumed(tmp_path, CrashAt(1), **changes)


def test_sigterm_saves_as_ctrl_c_does(tmp_path):
    class Terminate(Observer):
        def on_batch(self, progress):
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(Terminated, match="stopped after update 1; continue with --resume"):
            trainer(tmp_path, observer=Terminate()).train()
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert saved_step(tmp_path) == 1


def test_what_the_process_was_told_to_ignore_it_goes_on_ignoring(tmp_path):
    """A shell's background job, `nohup`."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert trainer(tmp_path, observer=InterruptAt(2)).train().epoch == 5
    finally:
        signal.signal(signal.SIGINT, before)


def test_nothing_is_written_where_the_check_refuses(tmp_path):
    """The first checkpoint, the log's lines, each later checkpoint."""
    for allowed in range(6):
        calls = iter(range(allowed))

        def check(calls=calls):
            if next(calls, None) is None:
                raise UserError("gone")

        directory = tmp_path / str(allowed)
        directory.mkdir()
        t = Trainer(SoftmaxModel(), SoftmaxModel().initial_parameters(),
                    Training(Source(), validate), TrainOptions(**OPTIONS),
                    Run(directory, check=check))
        with pytest.raises(UserError, match="gone"):
            t.train()
        assert (directory / LAST).exists() == (allowed > 1)
        assert (directory / LOG).exists() == (allowed > 2)


@pytest.mark.parametrize("changes, message", [
    ({"epochs": 0}, "epochs: expected a positive number, got 0"),
    ({"epochs": float("nan")}, "epochs: expected a positive number, got nan"),
    ({"learning_rate": -1.0}, "learning_rate: expected a positive number"),
    ({"max_norm": 0.0}, "max_norm: expected a positive number or None"),
    ({"plateau_factor": 1.5}, "plateau_factor: expected a number between 0 and 1, got 1.5"),
    ({"optimizer": "adagrad"}, "optimizer: expected 'sgd', 'adam' or 'adadelta', got 'adagrad'"),
    ({"schedule": "cosine"}, "schedule: expected one of thesis, plateau, constant"),
    ({"checkpoint_every": -1}, "checkpoint_every: expected at least 0"),
])
def test_options_that_make_no_sense(changes, message):
    with pytest.raises(ValueError, match=message):
        TrainOptions(**changes)
