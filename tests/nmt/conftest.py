"""A toy corpus, a translator and a language model trained on it."""

import shutil

import pytest
from tiny_run import TEXT_RECIPE, nmt, write_corpus, write_recipe


@pytest.fixture(autouse=True)
def _quiet_blas(monkeypatch):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)  # nmt would warn of it on stderr


@pytest.fixture
def corpus(tmp_path):
    """A directory with the corpus and r.yaml."""
    write_corpus(tmp_path)
    write_recipe(tmp_path / "r.yaml")
    return tmp_path


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
def trained(_trained, tmp_path):
    """A directory with a corpus, `model`, a translator that reads its source reversed, and `lm`."""
    directory = tmp_path / "trained"
    shutil.copytree(_trained, directory)
    return directory
