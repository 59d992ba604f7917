"""Runs a derivation for the stepper, on a small example or with the weights of a trained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.errors import UserError
from grads.derivations.examples import Sizes
from grads.stepper import trained as package
from grads.stepper.explorer.network import depth, word_ids
from grads.stepper.explorer.own import is_own, own_derivation, titled
from grads.stepper.explorer.settings import SEED, Settings
from grads.stepper.explorer.tensors import BACKWARD, FORWARD
from grads.stepper.explorer.times import Shown, shown_steps
from grads.stepper.trace import Trace, record
from grads.stepper.tracing.derivations import DERIVATIONS, Derivation, Run, find
from grads.stepper.tracing.verify import SUMMED, TOLERANCE, Verification
from grads.stepper.tracing.verify_own import Own
from nmt.checkpoint_option import DEFAULT

if TYPE_CHECKING:  # imported where a model is opened: the translators are slow to import
    from grads.stepper.explorer.models import Trained

HIDDEN, EMBEDDING, LAYERS = 3, 2, 2  # of the small example
ONLY = {key: tuple(name for name, derivation in DERIVATIONS.items() if key in derivation.settings)
        for key in ("sentence", "target", "layers", "model", "checkpoint", "score", "window",
                    "feeding")}
OWN = ("hidden", "embedding", "layers", "score", "window", "feeding", "seed")  # a trained model's
COMPARED = 1000  # gradients that are all compared where tensors are shown in part
KEPT = (4096, 256, 64, 36, 16, 9, 4)  # numbers of one tensor that are kept: the most that fit
LIMIT = 16_000  # numbers of all tensors together
TRAINED = 1e-8  # relative error of a verified gradient; where p is near 1, p - 1_y loses digits
VERIFIED = 2  # entries of each gradient that are verified where tensors are sliced
LARGE = 100_000  # parameters of a model of which one entry of each gradient is verified


@dataclass(frozen=True)
class RunExample:
    """A derivation that has been run, and the notes on it."""

    name: str  # what was asked for
    run: Run
    settings: Settings
    keep: int  # numbers of one tensor that the traces hold
    notes: list[str] = field(default_factory=list)
    trained: Trained | None = None

    @property
    def most(self) -> int | None:
        """How many entries of each gradient are verified, None for all."""
        if self.keep == KEPT[0]:
            return None
        return 1 if self.trained is not None and self.trained.parameters > LARGE else VERIFIED

    @property
    def tolerance(self) -> float:
        """The relative error up to which a gradient is verified."""
        return TOLERANCE if self.trained is None else TRAINED

    def verifications(self) -> list[Verification]:
        """What is known of every gradient. Large tensors have no central differences."""
        if self.own_verification is not None:
            return self.own_verification.verifications()
        return [verification._replace(status="verified")
                if verification.status == "wrong" and verification.error is not None
                and verification.error <= self.tolerance
                else verification for verification in self.run.verifications(
                    self.most is None, self.most, None if self.most is None else COMPARED)]

    @cached_property
    def own_verification(self) -> Own | None:
        """The verification of a user's own functions; None for a derivation."""
        return Own(self.run, self.most) if self.run.derivation.is_users else None

    @cached_property
    def shown(self) -> Shown:
        """The steps that a page shows."""
        return shown_steps(self.run)

    @property
    def verdict(self) -> str:
        """The verdict on a user's own functions: right, wrong, undecided or nothing."""
        return "right" if self.own_verification is None else self.own_verification.verdict

    @property
    def said(self) -> list[str]:
        """The notes, with what is known of the gradients that a user's own functions return."""
        verification = self.own_verification
        return [*self.notes, *(verification.notes() if verification is not None else [])]

    def rerun(self, edits: Any) -> Trace:
        """The backward pass with edits, traced. Readings are recorded in the edited functions
        only."""
        derivation, run = self.run.derivation, self.run
        return record(run.backward.program.edited(edits),
                      derivation.given(run.example, run.forward.result), {}, self.keep,
                      derivation.held, noted=tuple(edits))

    def described(self) -> dict[str, Any]:
        """Sentence and sizes as they are, for the page."""
        words, arguments = self.run.example.words, self.run.example.arguments
        made: dict[str, Any] = dict.fromkeys(
            ("sentence", "target", "hidden", "embedding", "layers"))
        if not is_own(self.run.derivation.name):
            sizes = sizes_of(self.settings)
            made |= {"hidden": sizes.hidden, "embedding": sizes.embedding,
                     "layers": depth(self.run)}
        shape = self.run.example.named.get("shape")
        if shape is not None:  # of a Transformer: all vectors are as wide as the embeddings
            made["hidden"] = made["embedding"] = arguments[0]["decoder.W_e"].shape[1]
        tables = [table for name, table in words.items() if name.endswith("W_e")]
        said = [[table[i] for i in word_ids(ids)]
                for table, ids in zip(tables, arguments[1:], strict=False)]
        made |= dict(zip(("sentence", "target"), said, strict=False))
        if self.trained is not None:
            made |= {"hidden": self.trained.hidden, "embedding": self.trained.embedding}
            if self.trained.reverse:
                made["sentence"] = made["sentence"][::-1]
        model = self.settings.model
        usual = None if self.trained is None else package.WHAT
        return made | {"seed": self.seed, "model": usual if model is None else shown(model)}

    @property
    def seed(self) -> int | None:
        """The seed of random parameters; None for a trained model's."""
        seed = self.settings.seed
        return None if self.trained is not None else SEED if seed is None else seed

    def command(self) -> str:
        """The command line that makes the page again."""
        name = titled(self.name) if Path(self.name).is_absolute() else self.name
        settings = vars(self.settings) | (
            {"model": shown(self.settings.model)} if self.settings.model is not None else {})
        given = ["--no-feeding" if key == "feeding" else f"--{key} {quoted(str(value))}"
                 for key, value in settings.items() if value is not None and value is not True]
        return " ".join(["grads explore", quoted(name), *given, f"-o {quoted(page_name(name))}"])


def open_example(name: str, settings: Settings) -> RunExample:
    """Run a derivation by name, or a user's own functions, FILE.py:NAME.

    The weights are those of `settings.model`. Without a model they are those of the package's own
    trained model, unless a setting of a random model is given or that model does not know a word.
    Raises `UserError` for an unknown name (it names the nearest one), for a setting that the
    derivation does not use, for a sentence without words, and for a directory that is not a run or
    whose model cannot be shown.
    """
    if is_own(name):
        run, keep = fitting(own_derivation(name, settings), {})
        return RunExample(name, run, settings, keep, sliced(keep))
    derivation = find(name)
    check_settings(derivation, settings)
    if settings.model is not None:
        model = opened(Path(settings.model), settings.sentence, settings.target,
                       settings.checkpoint or DEFAULT)
        return on_trained(name, settings, model, [])
    notes = []
    if name in package.facts() and all(getattr(settings, key) is None for key in OWN):
        model = of_package(derivation, settings)
        if not model.unknown:
            return on_trained(name, settings, model, [
                package.note(name) + " --seed N gives random weights."])
        notes.append("Random weights: the tiny model that comes with the package does not know "
                     f"{', '.join(model.unknown)}.")
    run, keep = fitting(derivation, {
        "sentence": sentence_of(derivation, settings), "sizes": sizes_of(settings),
        "seed": SEED if settings.seed is None else settings.seed})
    return RunExample(name, run, settings, keep, [*notes, *sliced(keep)])


def on_trained(
    name: str, settings: Settings, model: Trained, notes: Sequence[str]
) -> RunExample:
    """Run a trained model. A model of another kind than the name says is shown as what it is."""
    first = KEPT[-2] if model.parameters > LARGE else KEPT[0]
    run, keep = fitting(model.derivation, {}, first)
    return RunExample(name, run, settings, keep, [*notes, *decided(name, run), *model.notes, (
        f"A gradient counts as verified up to a relative error of {TRAINED:.0e}: where the "
        "model is nearly certain of a word, p - 1_y loses digits by cancellation."),
        *sliced(keep)], model)


def decided(name: str, run: Run) -> list[str]:
    """The note that a model is shown under another name than the user gave."""
    if run.derivation.name not in DERIVATIONS:
        return ["No derivation is this whole model: it is put together from the derivations' "
                "parts."]
    return [] if run.derivation.name == name else [f"The model decides what is shown: {run.title}."]


def of_package(derivation: Derivation, settings: Settings) -> Trained:
    """The package's own model on the sentence that was given, or on one of its own."""
    sentence, target = settings.sentence, settings.target
    pair = derivation.sentence is not None
    if pair and sentence is not None and target is None and "|||" in sentence:
        sentence, _, target = (text.strip() for text in sentence.partition("|||"))
    usual = package.SENTENCE if pair else package.TEXT
    return opened(package.DIRECTORY / derivation.name, usual if sentence is None else sentence,
                  target, DEFAULT)


def opened(
    directory: Path, sentence: str | None, target: str | None, which: str
) -> Trained:
    """`grads.stepper.explorer.models.open_model`, imported only where there is a model."""
    from grads.stepper.explorer.models import open_model

    return open_model(directory, sentence, target, which)


def sliced(keep: int) -> list[str]:
    """The note that not all numbers are shown."""
    return [] if keep == KEPT[0] else [
        f"Shown in part: of a tensor with more than {keep} numbers, the first entries along each "
        f"axis. At most {VERIFIED} entries of each gradient are verified, by complex step only; "
        f"those of a sum over time with more than {SUMMED} entries, when it is complete. If there "
        f"are more than {COMPARED} gradients, the first and the last of each line are verified."]


def fitting(
    derivation: Derivation, how: Mapping[str, Any], first: int = KEPT[0]
) -> tuple[Run, int]:
    """The run with as many numbers of each tensor as fit, and this count; `first` is tried
    first."""
    run = derivation.run(**how, keep=first)
    keep = next((keep for keep in KEPT if numbers(run, keep) <= LIMIT), KEPT[-1])
    return (derivation.run(**how, keep=keep) if keep > first else run.shortened(keep)), keep


def numbers(run: Run, keep: int) -> int:
    """How many numbers a page of two traces holds, with at most `keep` of each tensor."""
    shown = shown_steps(run).steps
    shapes = [target.shape for name, trace_ in ((FORWARD, run.forward), (BACKWARD, run.backward))
              for step in trace_.steps if step.number in shown[name] for target in step.targets
              if target.shape and target.same_as is None]
    return sum(min(keep, int(np.prod(shape))) for shape in shapes)


# --- settings -----------------------------------------------------------------------------------


def check_settings(derivation: Derivation, settings: Settings) -> None:
    """Raise `UserError` for a setting that has no meaning here."""
    name = derivation.name
    chosen = [key for key, value in vars(settings).items() if value is not None]
    for key in chosen:
        if name not in ONLY.get(key, (name,)) and (key, settings.layers) != ("layers", 1):
            raise UserError(f"{key}: {name} has none; {', '.join(ONLY[key])} "
                            f"{'have' if len(ONLY[key]) > 1 else 'has'}")
    if "checkpoint" in chosen and "model" not in chosen:
        raise UserError("checkpoint: it needs a trained model: name the model by --model DIR")
    if "model" in chosen:
        for key in chosen:
            if key in OWN:
                raise UserError(f"{key}: a trained model has its own; give either {key} or model")


def sizes_of(settings: Settings) -> Sizes:
    """The sizes of a random model. Raises `UserError` for a size that is not positive."""
    return Sizes(
        hidden=HIDDEN if settings.hidden is None else settings.hidden,
        embedding=EMBEDDING if settings.embedding is None else settings.embedding,
        layers=LAYERS if settings.layers is None else settings.layers,
        score=settings.score or "general", window=settings.window or "global",
        input_feeding=settings.feeding is not False)


def sentence_of(derivation: Derivation, settings: Settings) -> str | None:
    """The sentence as the derivation takes it: source ||| target for a translation; of two sources
    all three, as it was given."""
    if derivation.sentence is None or "target" not in derivation.settings:
        return settings.sentence
    source, target = settings.sentence, settings.target
    if source is not None and target is None and "|||" in source:
        return source
    usual = [sentence.strip() for sentence in derivation.sentence.split("|||")]
    return (f"{usual[0] if source is None else source} ||| "
            f"{usual[1] if target is None else target}")


def page_name(name: str) -> str:
    """The default file of a page."""
    return f"{name.rpartition(':')[2]}.html"


def shown(value: str | Path) -> str:
    """A directory as a page shows it: only the last part of an absolute path."""
    return Path(value).name if Path(value).is_absolute() else str(value)


def quoted(text: str) -> str:
    """A word of a command line, in quotes if it needs them."""
    return f'"{text}"' if not text or set(text) & set(" \"'|&;<>$") else text
