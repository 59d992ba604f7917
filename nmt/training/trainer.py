"""The training loop: epochs, log, validation, checkpoints, exact resume."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backend import Array, array_module, gemm, to_device
from backend.errors import UserError
from backend.host import differences, environment
from backend.memory import pool_figures, too_large
from nmt.data.batches import Batch
from nmt.files import make_directory
from nmt.models.contract import Trainable
from nmt.training import checkpoint, kept
from nmt.training.accuracy import precision_cost
from nmt.training.batch_source import BatchSource
from nmt.training.finite import first_non_finite, is_finite
from nmt.training.interrupt import DeferredInterrupt
from nmt.training.log import Log, NoLog
from nmt.training.meter import Meter, perplexities
from nmt.training.optimizers import gradient_scale
from nmt.training.options import TrainOptions
from nmt.training.passes import Sums, plus, sums_of
from nmt.training.progress import Observer, Progress
from nmt.training.resuming import Counters, differs, going_on, handed_on, reading, stream_state
from nmt.training.schedule import is_better
from nmt.training.sources import Together, accumulated, parts_of
from nmt.training.world import World

LAST = "last.safetensors"  # everything a resume needs
BEST = "best.safetensors"  # the parameters with the best validation score
LOG = "log.jsonl"

Validate = Callable[[dict[str, Array]], dict[str, float]]


class Trainer:
    """Trains a model in a directory, and goes on there after an interruption as if none were."""

    def __init__(self, model: Trainable, parameters: dict[str, Array], source: BatchSource,
                 options: TrainOptions, directory: str | Path, validate: Validate | None = None,
                 observer: Observer | None = None, metadata: dict[str, Any] | None = None, *,
                 world: World | None = None,
                 after_update: Callable[[dict[str, Array]], None] | None = None,
                 after_save: Callable[[str, dict[str, Array], dict[str, Any]], None] | None = None,
                 notes: Sequence[str] = (), beside: Mapping[str, Array] | None = None,
                 check_directory: Callable[[], None] | None = None) -> None:
        """Make a trainer that stands at the beginning.

        Arguments: model; parameters, trained in place; source of batches; options; directory, for
        `last.safetensors`, `best.safetensors` and `log.jsonl`; validate, called with the parameters
        whenever they are evaluated, returns scores by name, among them `options.criterion`;
        observer, told of progress; metadata, JSON-able, saved as "model" in each checkpoint; world,
        the processes that train together, each with the same arguments (the first one validates and
        writes); after_update, called with the parameters, which it may change, after each update;
        after_save, called with the file's name, the parameters and the facts of each checkpoint,
        once it is written; notes on the data, for
        the observer and the log; beside, what each checkpoint holds beside the parameters and
        training leaves as it is, by name; check_directory, of a directory that is there and held,
        is called before anything is written and raises UserError where the directory is not what
        it was.
        Raises ValueError for a plateau schedule without `validate`.
        """
        if options.schedule == "plateau" and validate is None:
            raise ValueError("validate: the plateau schedule expected a function, got None")
        self.parameters, self.options, self.counters = parameters, options, Counters()
        self._world, self._model, self._validate = world or World(), model, validate
        self._source, self._updates = source, accumulated(source, options.accumulate)
        self._directory, self._made = Path(directory), check_directory is not None
        self._check_directory = check_directory or (lambda: None)
        log = Log if self._world.first else NoLog
        self._log = log(self._directory / LOG, self._check_directory)
        self._observer, self._metadata = observer or Observer(), metadata or {}
        self._optimizer, self._schedule = options.make_optimizer(), options.make_schedule()
        self._data_rng = np.random.default_rng([options.seed, 0])
        self._dropout_rng = np.random.default_rng([options.seed, 1, self._world.rank])
        self._epoch_start = self._data_rng.bit_generator.state  # before the epoch's order is drawn
        self._xp = array_module(*parameters.values())
        self._dtype = next(iter(parameters.values())).dtype
        self._stream: Any = None  # where the streams of a language model stand
        self._after_update, self._after_save, self._notes = after_update, after_save, notes
        self._beside = dict(beside or {})
        self._meter = Meter(self._xp)
        self._owns_directory = False
        self._environment, self._changed = environment(), list[str]()  # notes on what it was before

    def resume(self) -> None:
        """Put everything back as it was when `last.safetensors` was written.

        Raises UserError when the file does not fit the model, or was made with other options.
        """
        path = self._directory / LAST
        saved = checkpoint.load(path)
        state = saved.metadata.get("training")
        if not state:
            raise UserError(f"{path}: expected the state of a training run, found parameters only")
        with reading(path):
            difference = self.options.difference(state["options"])
            ranks = 1 + len(state.get("further_ranks", []))
        if difference:
            raise UserError(f"{path}: cannot resume with other options: {difference}")
        if ranks != self._world.size:
            raise UserError(f"{path}: cannot resume with {self._world.size} ranks a run of {ranks}:"
                            f" its dropout would be another; use mpiexec -n {ranks}")
        known = saved.metadata.get("model", {})
        for name, value in self._metadata.items():
            if differs(known.get(name, value), value):
                raise UserError(f"{path}: cannot resume: its {name!r} is {known[name]}, this "
                                f"run's {value}: vocabularies or data are not what they were")
        parameters = saved.select(checkpoint.PARAMETERS)
        checkpoint.check_parameters(path, parameters, self.parameters)
        for name, parameter in self.parameters.items():
            parameter[...] = to_device(parameters[name])
        with reading(path):
            self._load_optimizer(saved.select(checkpoint.OPTIMIZER), state["counters"]["step"])
            self._load_state(state)
        carried = saved.select(checkpoint.CARRIED)
        expected = handed_on(self._model, self.parameters, self._source) if carried else ()
        stream = stream_state(path, carried, expected)
        self._stream = self._world.share_of_state(stream)
        if changed := differences(state.get("environment", {}), self._environment):
            self._changed = [f"resumed elsewhere ({changed}): the last bits may not be those of a "
                             "run that was never stopped"]
        self._owns_directory = True

    def _load_optimizer(self, arrays: Mapping[str, Array], step: int) -> None:
        """The optimizer's state after so many updates. Raises ValueError for another."""
        if step and self._optimizer.state_names and not arrays:
            raise ValueError(f"expected the state of {type(self._optimizer).__name__} after "
                             f"{step} updates, found none")
        self._optimizer.load_state_arrays(arrays, self.parameters)

    def _load_state(self, state: dict[str, Any]) -> None:
        """Counters, sums, schedule and generators; the log is cut back to where they stand."""
        self.counters = c = Counters(**state["counters"])
        self._meter.load(state["meter"])
        self._schedule.load(state["schedule"])
        self._data_rng.bit_generator.state = state["data_rng"]
        states = [state["dropout_rng"], *state.get("further_ranks", [])]
        self._dropout_rng.bit_generator.state = states[self._world.rank]
        self._log.keep(lambda record: record["step"] <= c.step and (
            record["event"] != "epoch" or record["epoch"] < c.epoch))

    def train(self) -> Counters:
        """Train until `options.epochs` are done or evaluations end it; where it then stands.

        A new run is saved before its first update. Ctrl-C stops after the update (or validation)
        in progress, saves `last.safetensors` and raises KeyboardInterrupt with a one-line message,
        SIGTERM likewise `Terminated`; a second one stops at once.
        Raises UserError when the loss or a gradient is not finite, when the directory holds a run
        that was not resumed, or when a file cannot be written.
        """
        self._claim_directory()
        try:
            # What is not finite is found and named: NumPy need not warn of it.
            with DeferredInterrupt() as interrupt, np.errstate(all="ignore"):
                self._tell(self._changed)
                if not self._is_left():
                    self._observer.on_note("nothing is left to train after epoch "
                                           f"{self.counters.epoch - 1} of {self.options.epochs:g}")
                self._tell_precision()
                while self._is_left():
                    if self._train_epoch(interrupt):
                        self._end_epoch()
                    self._stop_if_asked(interrupt)
        except KeyboardInterrupt as error:
            if error.args:
                raise
            raise type(error)(f"stopped at once; {self._kept()}") from None
        finally:
            self._observer.close()
        return self.counters

    def _tell(self, notes: Sequence[str]) -> None:
        """Say it to the observer, and in the log."""
        for text in notes:
            self._observer.on_note(text)
            self._log.write("note", step=self.counters.step, epoch=self.counters.epoch, text=text)

    def _tell_precision(self) -> None:
        """Say what products in less than float32 cost in accuracy, on the first batch."""
        if gemm.precision() == "float32":
            return
        keys = self._source.epoch(np.random.default_rng([self.options.seed, 0]))
        cost = precision_cost(self._model, self.parameters, self._source.batch(keys[0]))
        self._observer.on_note(str(cost))
        self._log.write("gemm", step=self.counters.step, epoch=self.counters.epoch,
                        precision=cost.precision, loss_error=cost.loss,
                        gradient_error=cost.gradients, largest_error=cost.largest,
                        largest_at=cost.name)

    def _claim_directory(self) -> None:
        """Make the directory; refuse to write over another run; save where a new one begins."""
        if self._owns_directory:
            return
        if self._world.first:
            if (self._directory / LAST).exists():
                raise UserError(f"{self._directory / LAST}: a training run is here already: "
                                f"--resume {self._directory} goes on with it")
            self._check_directory()
            if not self._made:
                make_directory(self._directory)
        self._log.keep(lambda record: False)  # of a run that never came to a checkpoint
        self._tell(self._notes)  # once a run: a resume does not know what it began with
        self._save_last()  # whenever the process is killed from here on, the run can be resumed
        self._owns_directory = True

    def _is_left(self) -> bool:
        """Whether there is more to train: epochs are left, and evaluations do not end it."""
        return self.counters.epoch < self.options.epochs + 1 and not self._is_enough()

    def _is_enough(self) -> bool:
        """Whether evaluations end training: the rate is too small, or too many had no new best."""
        most = self.options.stop_after
        return self._schedule.finished or 0 < most <= self.counters.waited

    def _train_epoch(self, interrupt: DeferredInterrupt) -> bool:
        """The batches of the epoch that are not yet done; whether it was trained to its end."""
        c, options = self.counters, self.options
        self._epoch_start = self._data_rng.bit_generator.state
        keys = self._updates.epoch(self._data_rng)
        if not len(keys) or c.position > len(keys):
            raise UserError(f"training data: expected at least {max(c.position, 1)} batches, "
                            f"got {len(keys)}")
        clock = self._updates.clock(keys)
        last = max(1, round((options.epochs - c.epoch + 1) * clock[-1]))
        end = min(len(keys), int(np.searchsorted(clock, last)))
        self._meter.start()
        for key in keys[c.position:end]:
            self._optimizer.learning_rate = self._schedule.rate_at(
                c.epoch, float(clock[c.position] / clock[-1]), c.step + 1)
            batch = self._updates.batch(key)
            try:
                self._train_batch(batch)
            except MemoryError as error:
                raise too_large(
                    error, f"update {c.step + 1}: a batch of {len(batch.indices)} "
                    f"sentences, {self._updates.tokens(batch)} target tokens",
                    f"train.batch_size is {options.batch_size}; a smaller one needs less"
                ) from error
            if c.step % options.log_every == 0 or c.position == end:
                self._log_window()
            self._observer.on_batch(self._progress(len(keys)))
            if options.evaluate_every and c.step % options.evaluate_every == 0:
                self._evaluate_within()
                if self._is_enough():
                    return False
            elif options.checkpoint_every and c.step % options.checkpoint_every == 0:
                self._save_last()
            self._stop_if_asked(interrupt)
        return True

    def _passes(self, batch: Batch) -> Sums:
        """Forward and backward of this rank's share of a batch."""
        batch = going_on(batch, self._stream, self._directory / LAST)
        noise = self._model.noise(batch, self._dropout_rng, self._dtype)
        loss, cache = self._model.loss(self.parameters, batch, noise)
        self._stream = getattr(cache, "state", None)
        return sums_of(loss, cache, self._model.backward(cache))

    def _train_batch(self, batch: Batch | Together) -> None:
        """One update of the parameters."""
        c, own, parts = self.counters, None, parts_of(batch)
        with self._world.overlapping(parts, self.parameters):
            for part in filter(None, map(self._world.share, parts)):
                own = plus(own, self._passes(part))
        sums = self._world.sum(own, self.parameters)
        loss, gradients = sums.loss, sums.gradients
        scale, norm = gradient_scale(gradients, self._updates.weight(batch),
                                     self.options.max_norm)
        # On the host reading the numbers is free; on a device it would mean waiting.
        if self._xp is np or (c.step + 1) % self.options.log_every == 0:
            if not (is_finite(loss) and is_finite(norm)):
                self._fail(c.step + 1, gradients)
        self._optimizer.update(self.parameters, gradients, scale)
        if self._after_update is not None:
            self._after_update(self.parameters)
        self._meter.add(loss, norm, self._updates.tokens(batch), batch.task, sums)
        c.step += 1
        c.position += 1

    def _fail(self, step: int, gradients: Mapping[str, Any]) -> None:
        """Raise UserError that says what is not finite, and where to go on from."""
        raise self._not_finite(step, first_non_finite(self.parameters, gradients))

    def _not_finite(self, step: int, what: str) -> UserError:
        """The error to raise when `what` is not finite."""
        return UserError(f"update {step}: {what} is not finite; {self._kept()}")

    def _kept(self) -> str:
        """What a resume would find."""
        step, last = saved_step(self._directory), self._directory / LAST
        return f"{last} holds the state after update {step}" if step else "no update was saved"

    def _check_parameters(self) -> None:
        """Stop if an update has made a parameter infinite or NaN."""
        if not all(is_finite(parameter) for parameter in self.parameters.values()):
            self._fail(self.counters.step, {})

    def _log_window(self) -> None:
        """One line of the log."""
        c, facts = self.counters, self._meter.close_window()
        if not self._meter.finite:
            self._fail(c.step, {})
        self._log.write("update", step=c.step, epoch=c.epoch, **facts,
                        learning_rate=self._optimizer.learning_rate, **pool_figures(self._xp))

    def _progress(self, batches: int) -> Progress:
        """What an observer is told; the loss and the speed are those of the last line logged."""
        c, facts = self.counters, self._meter.facts
        return Progress(c.epoch, self.options.epochs, c.position, batches, c.step,
                        self._optimizer.learning_rate, facts.get("target_tokens_per_second"),
                        perplexities(facts))

    def _evaluate_within(self) -> None:
        """Evaluate after an update of `evaluate_every`, and save what a resume needs."""
        c = self.counters
        self._meter.stop()
        scores, improved = self._evaluate(c.epoch - 1)
        self._log.write("evaluation", step=c.step, epoch=c.epoch, scores=scores, improved=improved)
        self._observer.on_evaluation(c.step, scores, improved)
        self._save_last()
        self._meter.start()

    def _end_epoch(self) -> None:
        """Evaluate, unless that goes by updates; tell the schedule, write the log and checkpoints.
        """
        c = self.counters
        scores, improved = ({}, False) if self.options.evaluate_every else self._evaluate(c.epoch)
        self._schedule.epoch_end(c.epoch)
        facts = self._meter.close_epoch()
        self._log.write("epoch", step=c.step, epoch=c.epoch, **facts, scores=scores,
                        improved=improved)
        self._observer.on_epoch(c.epoch, facts, scores, improved)
        if self.options.keep:
            self._save(kept.file_of(c.epoch), {}, {"scores": scores, "epoch": c.epoch,
                                                   "step": c.step})
            kept.drop(self._directory, c.epoch - self.options.keep)
        c.epoch, c.position = c.epoch + 1, 0
        self._epoch_start = self._data_rng.bit_generator.state
        self._save_last()

    def _evaluate(self, epochs: int) -> tuple[dict[str, float], bool]:
        """Validate after so many whole epochs, tell the schedule, save the best; the scores, and
        whether they are the best so far."""
        c = self.counters
        self._check_parameters()
        self._world.check_parameters(self.parameters)
        scores = self._world.from_first(self._scores)
        score = self._criterion(scores)
        if score is None:
            return scores, False
        improved = is_better(score, c.best, self.options.higher_is_better)
        self._schedule.evaluated(score)
        c.best, c.waited = (score, 0) if improved else (c.best, c.waited + 1)
        if improved:
            self._save(BEST, {}, {"scores": scores, "epoch": epochs, "step": c.step})
        return scores, improved

    def _scores(self) -> dict[str, float]:
        """What validation gives."""
        try:
            return self._validate(self.parameters) if self._validate else {}
        except FloatingPointError:  # finite parameters may still be too large to compute with
            raise self._not_finite(self.counters.step, "a logit of the dev set") from None

    def _criterion(self, scores: dict[str, float]) -> float | None:
        """The score that decides; None without validation."""
        if self._validate is None:
            return None
        if self.options.criterion not in scores:
            raise ValueError(f"criterion: expected one of {sorted(scores)}, "
                             f"got {self.options.criterion!r}")
        return scores[self.options.criterion]

    def _stop_if_asked(self, interrupt: DeferredInterrupt) -> None:
        """After Ctrl-C: save and leave."""
        if self._world.agreed(interrupt.requested):
            self._save_last()
            raise interrupt.error(f"stopped after update {self.counters.step}; "
                                  f"--resume {self._directory} goes on")

    def _save_last(self) -> None:
        """Everything that decides how training goes on."""
        generator, *further = self._world.everyones(self._dropout_rng.bit_generator.state)
        state = {
            "options": dataclasses.asdict(self.options),
            "environment": self._environment,
            "counters": dataclasses.asdict(self.counters),
            "meter": self._meter.state(),
            "schedule": self._schedule.state(),
            "data_rng": self._epoch_start,
            "dropout_rng": generator,
        } | ({"further_ranks": further} if further else {})
        arrays = checkpoint.prefixed(checkpoint.OPTIMIZER, self._optimizer.state_arrays())
        for layer, parts in enumerate(self._world.whole_state(self._stream) or ()):
            arrays |= {f"{checkpoint.CARRIED}{layer}.{place}": array
                       for place, array in enumerate(parts)}
        self._save(LAST, arrays, {"training": state})

    def _save(self, file: str, arrays: Mapping[str, Array], facts: dict[str, Any]) -> None:
        """Write the parameters and more arrays, unless they have gone bad since the last check."""
        self._check_directory()
        self._check_parameters()
        if not self._world.first:
            return
        parameters = checkpoint.prefixed(checkpoint.PARAMETERS, self.parameters)
        checkpoint.save(self._directory / file, parameters | self._beside | dict(arrays),
                        {"model": self._metadata, **facts})
        if self._after_save is not None:
            self._after_save(file, self.parameters, facts)


def saved_step(directory: Path) -> int:
    """The update that a run's last checkpoint stands after; 0 where there is none."""
    last = directory / LAST
    training = checkpoint.load_metadata(last).get("training", {}) if last.is_file() else {}
    return int(training.get("counters", {}).get("step", 0))
