"""A toy corpus, a translator and a language model trained on it."""

import shutil

import numpy as np
import pytest
from tiny_run import TEXT_RECIPE, Crash, CrashAt, nmt, write_corpus, write_recipe

from nmt.system import System
from nmt.training.progress import Observer
from nmt.translator_training import train


@pytest.fixture(autouse=True, scope="module")
def _quiet_blas():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OPENBLAS_CORETYPE", raising=False)  # nmt would warn of it on stderr
        yield


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """The working directory, with the corpus and r.yaml."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    write_recipe(tmp_path / "r.yaml")
    return tmp_path


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """The working directory of a module's tests, with the corpus."""
    directory = tmp_path_factory.mktemp("workplace")
    write_corpus(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        yield directory


@pytest.fixture(scope="session")
def _trained(tmp_path_factory):
    directory = tmp_path_factory.mktemp("trained")
    write_corpus(directory, pairs=300)
    recipe = write_recipe(directory / "r.yaml", data={"reverse_source": True},
                          model={"dropout": 0.0}, train={"epochs": 12, "learning_rate": 0.05})
    assert nmt("train", recipe, "--output", directory / "model") == 0
    recipe = write_recipe(directory / "lm.yaml", TEXT_RECIPE)
    assert nmt("lm", "train", recipe, "--output", directory / "lm") == 0
    return directory


@pytest.fixture
def trained(_trained, tmp_path, monkeypatch):
    """The working directory, with a corpus, `model`, a translator that reads its source reversed,
    and `lm`."""
    directory = tmp_path / "trained"
    shutil.copytree(_trained, directory)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def resumed(corpus):
    """A function of a recipe, which trains by it in `whole`, if it is not given, and in `cut`, with
    a crash after an update and a resume: both systems end with the same parameters, and so does the
    run that is opened again. It returns the whole system and the opened one."""
    def crash_and_resume(recipe, step=5, whole=None, cut="cut"):
        whole = whole or train(recipe, corpus / "whole", Observer())
        with pytest.raises(Crash):
            train(recipe, corpus / cut, CrashAt(step))
        resumed = train(recipe, corpus / cut, Observer(), resume=True)
        opened = System.open(corpus / cut)
        for system in (resumed, opened):
            assert system.parameters.keys() == whole.parameters.keys()
            for name, parameter in system.parameters.items():
                np.testing.assert_array_equal(parameter, whole.parameters[name], err_msg=name)
        return whole, opened

    return crash_and_resume
