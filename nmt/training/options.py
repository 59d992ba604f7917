"""The settings of a training run."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from backend.errors import check, check_least
from nmt.training.optimizers import OPTIMIZERS, Optimizer
from nmt.training.schedule import PlateauSchedule, Schedule, ThesisSchedule
from nmt.training.warmup import InverseSqrtSchedule

if TYPE_CHECKING:
    OptimizerName = str
else:
    OptimizerName = Literal[*OPTIMIZERS]
EPOCH, ONCE = SHUFFLES = ("epoch", "once")
SCHEDULES = ("thesis", "plateau", "constant", "inverse-sqrt")
_LOWER_IS_BETTER = ("perplexity", "character_perplexity", "loss")  # other scores: higher


@dataclass(frozen=True)
class TrainOptions:
    """Options of training; the defaults are the thesis's for models with dropout (section
    4.3.1)."""

    epochs: float = 12  # passes over the training data, such as 12 or 0.5
    batch_size: int = 128  # sentences per batch; a language model has text.streams
    batch_tokens: int | None = None  # instead: words per batch on its longer side, with padding
    accumulate: int = 1  # batches whose gradients are added up for one update
    shuffle: Literal["epoch", "once"] = "epoch"  # shuffle in each epoch, or once at the start
    sorted_within: int = 64  # batches whose sentences are sorted by length together
    optimizer: OptimizerName = "sgd"  # the learning rate of adadelta as published is 1
    beta1: float = 0.9  # adam: decay of the gradient's average, per update
    beta2: float = 0.999  # adam: decay of the average of squares; Vaswani et al.: 0.98
    epsilon: float | None = None  # adam, adadelta: added to the root; null: 1e-8 and 1e-6
    weight_decay: float = 0.0  # lambda: parameters shrink by learning_rate * lambda per update
    moving_average: float = 0.0  # decay of the averaged parameters, which are validated; 0: none
    learning_rate: float = 1.0  # the rate at the start, or at the end of the warm-up
    schedule: Literal["thesis", "plateau", "constant", "inverse-sqrt"] = "thesis"  # how it changes
    warmup: int = 0  # updates in which the rate rises from 0; n_w of inverse-sqrt
    halve_after: int = 8  # thesis: the last epoch at the full learning rate
    halve_every: float = 1.0  # thesis: epochs between halvings; 0.5 in chapters 3 and 5
    plateau_factor: float = 0.8  # plateau: multiplies the learning rate at a decay
    plateau_patience: int = 3  # plateau: evaluations without a new best before a decay
    plateau_minimum: float = 1e-6  # plateau: training ends below this learning rate
    max_norm: float | None = 5.0  # clips the norm of the gradient, divided by the batch size
    evaluate_every: int = 0  # updates between evaluations; 0: at the end of each epoch
    stop_after: int = 0  # stop after this many evaluations without a new best; 0: never
    criterion: str = "perplexity"  # score of the best epoch: perplexity, bleu, character_perplexity
    log_every: int = 50  # updates between lines of the log
    checkpoint_every: int = 0  # updates between checkpoints within an epoch; 0: only at its end
    keep: int = 0  # number of last epochs whose checkpoints are kept, to average or combine
    seed: int = 1  # for parameters, order of the data and dropout masks

    def __post_init__(self) -> None:
        """Raise ValueError with the name of the first invalid field."""
        check(self, "epochs", 0 < self.epochs < float("inf"), "a positive number")
        check_least(self, 1, "batch_size", "accumulate", "sorted_within", "halve_after",
              "plateau_patience", "log_every")
        check(self, "batch_tokens", self.batch_tokens is None or self.batch_tokens >= 1,
              "at least 1 or None")
        check_least(self, 0, "checkpoint_every", "evaluate_every", "stop_after", "keep", "seed",
              "warmup", "weight_decay")
        for name in ("learning_rate", "plateau_minimum", "halve_every"):
            check(self, name, getattr(self, name) > 0, "a positive number")
        for name in ("beta1", "beta2", "moving_average"):
            check(self, name, 0 <= getattr(self, name) < 1, "0 or more, and less than 1")
        check(self, "epsilon", self.epsilon is None or self.epsilon > 0,
              "a positive number or None")
        check(self, "plateau_factor", 0 < self.plateau_factor < 1, "a number between 0 and 1")
        check(self, "max_norm", self.max_norm is None or self.max_norm > 0,
              "a positive number or None")
        check(self, "optimizer", self.optimizer in OPTIMIZERS,
              " or ".join(", ".join(map(repr, OPTIMIZERS)).rsplit(", ", 1)))
        check(self, "shuffle", self.shuffle in SHUFFLES, f"one of {', '.join(SHUFFLES)}")
        check(self, "shuffle", self.shuffle == EPOCH or self.batch_tokens is None,
              "epoch beside batch_tokens")
        check(self, "schedule", self.schedule in SCHEDULES, f"one of {', '.join(SCHEDULES)}")
        check(self, "warmup", self.warmup > 0 or self.schedule != "inverse-sqrt",
              "at least 1 with the schedule inverse-sqrt")

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value of the criterion is better."""
        return self.criterion not in _LOWER_IS_BETTER

    def optimizer_takes(self, name: str) -> bool:
        """Whether the optimizer has an argument of this name."""
        return name in inspect.signature(OPTIMIZERS[self.optimizer]).parameters

    def make_optimizer(self) -> Optimizer:
        """A new optimizer by these options."""
        chosen = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)
                  if self.optimizer_takes(field.name)}
        return OPTIMIZERS[self.optimizer](
            **{name: value for name, value in chosen.items() if value is not None})

    def make_schedule(self) -> Schedule:
        """A new schedule by these options."""
        if self.schedule == "inverse-sqrt":
            return InverseSqrtSchedule(self.learning_rate, self.warmup)
        if self.schedule == "plateau":
            return PlateauSchedule(self.learning_rate, self.plateau_factor, self.plateau_patience,
                                   self.plateau_minimum, self.higher_is_better, self.warmup)
        return ThesisSchedule(self.learning_rate,
                              self.halve_after if self.schedule == "thesis" else None,
                              self.halve_every, self.warmup)

    def difference(self, saved: dict[str, Any]) -> str:
        """The options that a resumed run changes although it must not, as "name: was value, now
        value"; "" if there are none.

        It may change the number of epochs, the intervals of log and checkpoints, and the number of
        checkpoints kept, which do not affect the parameters. But it may not change the number of
        epochs if that was fractional, since batches of the last epoch were left out.
        """
        free = {"epochs", "log_every", "checkpoint_every", "keep"}
        if saved.get("epochs", 1) % 1:
            free.remove("epochs")
        current, first = dataclasses.asdict(self), {field.name: field.default
                                                    for field in dataclasses.fields(self)}
        saved = first | saved  # an option newer than the run has its default
        return "; ".join(f"{name}: was {saved[name]!r}, now {value!r}"
                         for name, value in current.items()
                         if name not in free and saved[name] != value)
