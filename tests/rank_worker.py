"""The assertions of the ranks of `mpiexec -n N python -m mpi4py tests/rank_worker.py DIR`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from mpi4py import MPI
from tiny_run import Crash, CrashAt

from backend.errors import UserError
from backend.rows import RowGradient
from grads.verification.catalogue import entries, random_model
from lstm.parameters import initialise
from nmt.data.batches import TextBatches
from nmt.language_models import Streams
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from nmt.models.translator import ModelConfig, Translator
from nmt.recipe import TextConfig
from nmt.training.batch_source import Training
from nmt.training.options import TrainOptions
from nmt.training.passes import sums_of
from nmt.training.run import Run
from nmt.training.tasks import Mixture, Several
from nmt.training.trainer import Trainer
from nmt.training.transport import Mpi
from nmt.training.world import Ranks, World

WORDS, ALONE, RANKS = 9, World(), Ranks(Mpi(MPI.COMM_WORLD))
PLAIN = {"embedding_size": 4, "hidden_size": 5, "layers": 1}


def dense(gradient):
    """An array, also of rows."""
    return gradient.dense() if isinstance(gradient, RowGradient) else gradient


def summed(drawn, world):
    """Loss and gradients of a drawn model's batch, by a world's ranks."""
    share, sums = world.share(drawn.batch), None
    if share is not None:
        share = replace(share, state=world.share_of_state(share.state))
        loss, cache = drawn.model.loss(drawn.parameters, share)
        sums = sums_of(loss, cache, drawn.model.backward(cache))
    return world.sum(sums, drawn.parameters)


def check_every_architecture() -> int:
    """Shares of a ragged batch of three sentences sum to the batch, with one rank empty of four."""
    ragged = [entry for entry in entries("tiny") if entry.shape == "ragged"]
    chosen = [entry for name in {chosen_entry.architecture: 0 for chosen_entry in ragged}
              for entry in [entry for entry in ragged if entry.architecture == name][::6]]
    for entry in chosen:
        drawn = random_model(entry)
        alone, parts = summed(drawn, ALONE), summed(drawn, Ranks(Mpi(MPI.COMM_WORLD)))
        for name in ("loss", "word_loss"):
            np.testing.assert_allclose(getattr(parts, name), getattr(alone, name), rtol=1e-12,
                                       err_msg=entry.name)
        assert (parts.length_loss is None) == (alone.length_loss is None)
        if alone.length_loss is not None:
            np.testing.assert_allclose(parts.length_loss, alone.length_loss, rtol=1e-12)
        for name, gradient in alone.gradients.items():
            np.testing.assert_allclose(dense(parts.gradients[name]), dense(gradient), rtol=1e-12,
                                       atol=1e-12, err_msg=f"{entry.name}: {name}")
        RANKS.check_same("sums", [float(np.sum(dense(g))) for g in parts.gradients.values()])
    return len({entry.architecture for entry in chosen})


def pairs(count=11, seed=0, **options):
    """Sentence pairs of random words as a source of batches."""
    rng = np.random.default_rng(seed)
    drawn = [tuple(rng.integers(2, WORDS, rng.integers(1, 6)).tolist() for _ in range(2))
             for _ in range(count)]
    return TextBatches(drawn, options.pop("batch_size", 4), True, **options)


def translator(**options):
    return Translator(ModelConfig(**PLAIN | options), WORDS, WORDS, True)


class Tasks(Several):
    """With fresh parameters."""

    def initial_parameters(self, rng, dtype):
        return initialise(self.weights(), rng, dtype)


KINDS = {
    "sentences": (translator, pairs),  # 4, 4 and 3 a batch
    "tokens": (translator, lambda: pairs(budget=14)),
    "streams": (lambda: LanguageModel(LanguageModelConfig(**PLAIN), WORDS),
                lambda: Streams(np.random.default_rng(1).integers(0, WORDS, 60).tolist(),
                                TextConfig(train="t", streams=5, length=4))),
    "few streams": (lambda: LanguageModel(LanguageModelConfig(**PLAIN), WORDS),
                    lambda: Streams(np.random.default_rng(1).integers(0, WORDS, 30).tolist(),
                                    TextConfig(train="t", streams=3, length=4))),
    "tasks": (lambda: Tasks({"a": translator(), "b": translator()}),
              lambda: Mixture({"a": pairs(), "b": pairs(9, 1)}, {"a": 1.0, "b": 1.0})),
}


def trainer(directory, world, kind, observer=None, model=None, **options):
    model, source = model or KINDS[kind][0](), KINDS[kind][1]()
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    settings = TrainOptions(**{"epochs": 2, "optimizer": "adam", "learning_rate": 0.01,
                               "max_norm": 0.5} | options)
    return Trainer(model, parameters, Training(source), settings, Run(directory, world), observer)


def check_training(directory: Path, kinds: list[str]) -> None:
    """Parameters after two epochs equal those of one process, whatever divides an update."""
    for kind in kinds:
        for accumulate in (1, 2)[: 1 + (kind != "tokens")]:
            run_directory = directory / f"{kind}-{accumulate}"
            alone = trainer(run_directory / f"alone-{RANKS.rank}", ALONE, kind,
                            accumulate=accumulate)
            ranks = trainer(run_directory / "ranks", RANKS, kind, accumulate=accumulate)
            alone.train()
            ranks.train()
            for name, parameter in alone.parameters.items():
                np.testing.assert_allclose(ranks.parameters[name], parameter, rtol=1e-12,
                                           atol=1e-12, err_msg=f"{kind}: {name}")
    if RANKS.first:
        ours, theirs = (sorted(path.name for path in (run_directory / which).iterdir())
                        for which in ("alone-0", "ranks"))
        assert ours == theirs == ["last.safetensors", "log.jsonl"], (ours, theirs)


def check_resume(directory: Path) -> None:
    """With separate dropout in each rank, a run that crashed resumes bit-identical."""
    for kind, make in (("sentences", translator),
                       ("streams", lambda **options: LanguageModel(
                           LanguageModelConfig(**PLAIN | options), WORDS))):
        model = make(dropout=0.3)
        uncut = trainer(directory / f"{kind}-whole", RANKS, kind, model=model)
        uncut.train()
        run_directory = directory / f"{kind}-cut"
        crashing = trainer(run_directory, RANKS, kind, CrashAt(4), model, checkpoint_every=2)
        try:
            crashing.train()
        except Crash:
            pass
        resumed = trainer(run_directory, RANKS, kind, model=model)
        resumed.resume()
        resumed.train()
        for name, parameter in uncut.parameters.items():
            np.testing.assert_array_equal(resumed.parameters[name], parameter)
        try:
            trainer(run_directory, ALONE, kind, model=model).resume()
        except UserError as error:
            assert f"a run of {RANKS.size} ranks with 1, since" in str(error)
        else:
            raise AssertionError("resumed alone")


def check_what_is_said() -> None:
    """The small objects that ranks exchange."""
    assert RANKS.gather(7 + RANKS.rank)[0] == 7
    assert RANKS.gather(RANKS.rank) == list(range(RANKS.size))
    assert RANKS.agreed(RANKS.rank == RANKS.size - 1) and not RANKS.agreed(False)
    try:
        RANKS.check_parameters({"W": np.full(3, float(RANKS.rank == 1))})
    except UserError as error:
        assert str(error) == "rank 1: expected the parameters of rank 0, found others"
    else:
        raise AssertionError("other parameters pass")


if __name__ == "__main__":
    architectures = check_every_architecture()
    check_training(Path(sys.argv[1]), ["sentences", "few streams"] if RANKS.size == 4 else
                   ["sentences", "tokens", "streams", "tasks"])
    if RANKS.size == 2:
        check_resume(Path(sys.argv[1]))
    check_what_is_said()
    if RANKS.first:
        print(f"{architectures} architectures, {RANKS.size} ranks")
