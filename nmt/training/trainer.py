"""The training loop: batch, loss, backward, clip, update, log, validate, save."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backend import Array, array_module
from backend.errors import UserError
from nmt.data.batches import Batch
from nmt.models.contract import Trainable
from nmt.training import checkpoint, kept
from nmt.training.batch_source import Training
from nmt.training.finite import first_non_finite, is_finite
from nmt.training.interrupt import DeferredInterrupt
from nmt.training.moving_average import MovingAverage
from nmt.training.optimizers import gradient_scale
from nmt.training.options import TrainOptions
from nmt.training.passes import accumulate, sums_of
from nmt.training.progress import Observer
from nmt.training.reports import Reports
from nmt.training.resuming import continue_stream, read_stream, reading
from nmt.training.run import BEST, LAST, Run
from nmt.training.sources import Together, accumulated, batches_of, naming_batch
from nmt.training.state import Counters, TrainingState


class Trainer:
    """Trains a model in a run's directory. A resumed training ends with the same parameters as one
    that was never interrupted."""

    def __init__(self, model: Trainable, parameters: dict[str, Array], training: Training,
                 options: TrainOptions, run: Run, observer: Observer | None = None) -> None:
        """Make a trainer at the beginning of training.

        parameters: trained in place. training: the batches, and the function that validates. run:
        the directory and the processes that train in it, all with the same arguments. observer:
        receives progress.
        """
        self.parameters, self.options = parameters, options
        self.state = TrainingState(options, parameters, run.world)
        self._model, self._training, self._run, self._world = model, training, run, run.world
        self._average = MovingAverage(options.moving_average, parameters)
        self._updates = accumulated(training.batches, options.accumulate)
        self._reports = Reports(self.state, options, run.log, observer or Observer())
        self._on_host = array_module(*parameters.values()) is np
        self._is_saved, self._notes = False, training.notes

    @property
    def counters(self) -> Counters:
        """The counters of training."""
        return self.state.counters

    def resume(self) -> None:
        """Restore everything as it was when `last.safetensors` was written. Raises UserError if the
        file does not fit the model, or was made with other options."""
        path = self._run.last
        saved = checkpoint.load(path)
        self.state.check_saved(path, saved, self._run.metadata)
        self._average.load(saved, path)
        with reading(path):
            self.state.load(saved, self.parameters)
            self._run.log.keep(self.counters.include)
        stream = read_stream(path, saved, self._model, self.parameters, self._training.batches)
        self.state.stream = self._world.share_of_state(stream)
        self._is_saved, self._notes = True, self.state.notes_on_host(saved)

    def train(self) -> Counters:
        """Train until `options.epochs` are done or evaluations end it; return the counters.

        A new run is saved before its first update. Ctrl-C stops after the current update or
        validation, saves `last.safetensors` and raises KeyboardInterrupt with a one-line message;
        SIGTERM does the same with `Terminated`. A second signal stops at once. Raises UserError if
        the loss or a gradient is not finite, if the directory holds a run that was not resumed, or
        if a file cannot be written.
        """
        if not self._is_saved:
            self._begin()
        try:
            # Values that are not finite are found and named, so that NumPy need not warn.
            with DeferredInterrupt() as interrupt, np.errstate(all="ignore"):
                self._reports.notes(self._notes)
                if not self.state.is_left():
                    self._reports.nothing_left()
                self._reports.precision(self._model, self.parameters, self._training.batches)
                while self.state.is_left():
                    if self._train_epoch(interrupt):
                        scores, improved = ({}, False) if self.options.evaluate_every else \
                            self._evaluate(self.counters.epoch)
                        self._end_epoch(scores, improved)
                    self._stop_if_asked(interrupt)
        except KeyboardInterrupt as error:
            if error.args:
                raise
            raise type(error)(f"stopped at once; {self._run.last_saved()}") from None
        finally:
            self._reports.close()
        return self.counters

    def _begin(self) -> None:
        """Save the beginning of a new run, so that it can be resumed whenever it is killed."""
        self._run.begin()
        self._reports.notes(self._notes)  # once in a run: a resume does not have them
        self._save_last()
        self._is_saved, self._notes = True, ()

    def _train_epoch(self, interrupt: DeferredInterrupt) -> bool:
        """Train on the batches of the epoch that are left; return whether the epoch is complete."""
        counters, options, state = self.counters, self.options, self.state
        state.epoch_start = state.data_rng.bit_generator.state
        keys = self._updates.epoch(state.data_rng)
        if not len(keys) or counters.position > len(keys):
            raise UserError(f"training data: expected at least {max(counters.position, 1)} "
                            f"batches, got {len(keys)}")
        clock = self._updates.clock(keys)
        last = max(1, round((options.epochs - counters.epoch + 1) * clock[-1]))
        end = min(len(keys), int(np.searchsorted(clock, last)))
        state.meter.start()
        for key in keys[counters.position:end]:
            state.optimizer.learning_rate = state.schedule.rate_at(
                counters.epoch, float(clock[counters.position] / clock[-1]), counters.step + 1)
            batch = self._updates.batch(key)
            with naming_batch(batch, self._updates, counters.step + 1, options.batch_size):
                self._update(batch)
            if counters.step % options.log_every == 0 or counters.position == end:
                self._log_window()
            self._reports.batch(len(keys))
            if options.evaluate_every and counters.step % options.evaluate_every == 0:
                state.meter.stop()
                self._reports.evaluation(*self._evaluate(counters.epoch - 1))
                self._save_last()
                state.meter.start()
                if state.is_enough():
                    return False
            elif options.checkpoint_every and counters.step % options.checkpoint_every == 0:
                self._save_last()
            self._stop_if_asked(interrupt)
        return True

    def _update(self, batch: Batch | Together) -> None:
        """Make an update of the parameters: loss, backward, sum over the ranks, clip, update."""
        state, dtype, sums = self.state, next(iter(self.parameters.values())).dtype, None
        for share in filter(None, map(self._world.share, batches_of(batch))):
            share = continue_stream(share, state.stream, self._run.last)
            noise = self._model.noise(share, state.dropout_rng, dtype)
            loss, cache = self._model.loss(self.parameters, share, noise)
            state.stream = cache.state
            sums = accumulate(sums, sums_of(loss, cache, self._model.backward(cache)))
        sums = self._world.sum(sums, self.parameters)
        scale, norm = gradient_scale(sums.gradients, self._updates.weight(batch),
                                     self.options.max_norm)
        # Reading the numbers is free on the host, but a device would have to be waited for.
        if self._on_host or (self.counters.step + 1) % self.options.log_every == 0:
            if not (is_finite(sums.loss) and is_finite(norm)):
                self._fail(self.counters.step + 1, sums.gradients)
        state.optimizer.update(self.parameters, sums.gradients, scale)
        state.meter.add(sums.loss, norm, self._updates.tokens(batch), batch.task, sums.losses)
        self.counters.step += 1
        self.counters.position += 1
        self._average.update(self.counters.step)

    def _log_window(self) -> None:
        """Write the window since the last line to the log."""
        facts = self.state.meter.close_window()
        if not self.state.meter.finite:
            self._fail(self.counters.step, {})
        self._reports.window(facts, self.parameters)

    def _end_epoch(self, scores: dict[str, float], improved: bool) -> None:
        """End the schedule's epoch, log, and write checkpoints. scores: of the evaluation after the
        epoch; none where evaluations are by updates."""
        counters, state, keep = self.counters, self.state, self.options.keep
        state.schedule.epoch_end(counters.epoch)
        self._reports.epoch(state.meter.close_epoch(), scores, improved)
        if keep:
            self._save(kept.file_of(counters.epoch), {
                "scores": scores, "epoch": counters.epoch, "step": counters.step})
            kept.drop(self._run.directory, counters.epoch - keep)
        counters.epoch, counters.position = counters.epoch + 1, 0
        state.epoch_start = state.data_rng.bit_generator.state
        self._save_last()

    def _evaluate(self, epochs: int) -> tuple[dict[str, float], bool]:
        """Validate, and save the parameters if they are the best; return the scores, and whether
        they are the best so far. epochs: how many epochs are complete."""
        self._check_parameters()
        self._world.check_parameters(self.parameters)
        if self._training.validate is None:
            return {}, False
        scores: dict[str, float] = {}
        if self._world.first:
            try:
                scores = self._training.validate(self._average.parameters)
            except FloatingPointError:  # finite parameters may still be too large to compute with
                raise self._run.not_finite(self.counters.step, "a logit of the dev set") from None
        scores = self._world.gather(scores)[0]
        improved = self.state.take_scores(scores)
        if improved:
            self._save(BEST, {"scores": scores, "epoch": epochs, "step": self.counters.step})
        return scores, improved

    def _save_last(self) -> None:
        """Save everything that a resume needs."""
        document, arrays = self.state.saved()
        self._save(LAST, {"training": document}, arrays | self._average.trained())

    def _save(self, file: str, facts: dict[str, Any], arrays: Mapping[str, Array] | None = None
              ) -> None:
        """Write the parameters, or their average, and further arrays. Raises UserError if the
        parameters are not finite, or if the directory was moved or changed."""
        self._run.check()
        self._check_parameters()
        self._run.save(file, self._average.parameters, facts, arrays)

    def _stop_if_asked(self, interrupt: DeferredInterrupt) -> None:
        """Save and raise the signal's exception, if a signal has come to any rank."""
        if self._world.agreed(interrupt.requested):
            self._save_last()
            raise interrupt.error(f"stopped after update {self.counters.step}; "
                                  f"continue with --resume {self._run.directory}")

    def _check_parameters(self) -> None:
        """Raise UserError if an update has made a parameter infinite or NaN."""
        if not all(is_finite(parameter) for parameter in self.parameters.values()):
            self._fail(self.counters.step, {})

    def _fail(self, step: int, gradients: Mapping[str, Any]) -> None:
        """Raise UserError with the name of what is not finite, and the state to resume from."""
        raise self._run.not_finite(step, first_non_finite(self.parameters, gradients))
