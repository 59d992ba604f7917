"""Search with sparse products finds what dense ones find, in every architecture."""

from importlib.util import find_spec

import numpy as np
import pytest

from backend.errors import UserError
from backend.sparse import SparseMatrix, sparse_matrix
from nmt.data.batches import make_sources
from nmt.models.contract import Tables
from nmt.models.registry import MODELS
from nmt.pruning.classes import classes
from nmt.pruning.inference import sparse_parameters
from nmt.pruning.schemes import masks
from nmt.search.beam import beam_search
from nmt.search.interface import SearchOptions

V = 11
CASES = [("luong", {}), ("luong", {"unit": "gru", "layers": 1, "score": "dot"}),
         ("luong", {"unit": "rnn", "bidirectional": True, "bridge": True,
                    "input_feeding": False}), ("rnnsearch", {})]


def pruned(architecture, options, percent=90):
    """A model, its weights, and parameters in float64, pruned."""
    kind = MODELS[architecture]
    sizes = {"hidden_size": 6, "embedding_size": 4}
    model = kind.build(kind.config(**sizes, **options), Tables((V,) * kind.sources, V))
    rng = np.random.default_rng(3)
    parameters = {name: rng.normal(0, 0.7, weight.shape)
                  for name, weight in model.weights().items()}
    kept = masks(parameters, classes(model.weights()), percent, "class-uniform")
    return model, {name: np.where(kept.get(name, True), array, 0)
                   for name, array in parameters.items()}


needs_scipy = pytest.mark.skipif(find_spec("scipy") is None,
                                 reason="scipy (extra `sparse`) is not installed")


@needs_scipy
@pytest.mark.parametrize("architecture, options", CASES)
def test_hypotheses_are_the_same(architecture, options):
    model, parameters = pruned(architecture, options)
    sparse = sparse_parameters(model.weights(), parameters, share=0.2)
    names = {name for name, array in sparse.items() if isinstance(array, SparseMatrix)}
    assert {"decoder.0.W", "output.W_o" if architecture == "rnnsearch" else "output.W_hy"} <= names
    assert not [name for name in names if name.startswith("encoder") or name.endswith("W_e")]
    sources = make_sources([[3, 4, 5], [6, 2], [7]], False)
    how = SearchOptions(beam=3, nbest=3, minimum_steps=6)
    for ours, theirs in zip(beam_search(model, sparse, sources, how),
                            beam_search(model, parameters, sources, how), strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        np.testing.assert_allclose([h.log_probability for h in ours],
                                   [h.log_probability for h in theirs], rtol=1e-12)


@needs_scipy
def test_a_language_model_steps_alike():
    model, parameters = pruned("language_model", {"layers": 2})
    sparse = sparse_parameters(model.weights(), parameters, share=0.2)
    assert isinstance(sparse["rnn.1.W"], SparseMatrix)
    last_logits = []
    for weights in (sparse, parameters):
        states = model.encode(weights, (), 2)
        for tokens in ([2, 3], [4, 5]):
            logits, states, _ = model.step(weights, states, np.array(tokens))
        last_logits.append(logits)
    np.testing.assert_allclose(*last_logits, rtol=1e-12, atol=1e-14)


def test_what_is_dense_stays_dense():
    model, parameters = pruned("luong", {}, percent=50)
    assert all(array is parameters[name]
               for name, array in sparse_parameters(model.weights(), parameters).items())


@needs_scipy
def test_products_and_what_is_none():
    rng = np.random.default_rng(1)
    W, x = np.where(rng.random((4, 6)) < 0.3, rng.random((4, 6)), 0), rng.random((3, 4))
    sparse, out = sparse_matrix(W), np.empty((3, 4))
    assert sparse.T.shape == (6, 4) and sparse[:, 2:].shape == (4, 4)
    product = np.matmul(x, sparse[:, :4].T)
    np.testing.assert_allclose(product, x @ W[:, :4].T, rtol=1e-14)
    assert product.flags.c_contiguous and product.dtype == np.float64
    assert np.matmul(x, sparse[:, 2:].T, out=out) is out
    np.testing.assert_allclose(out, x @ W[:, 2:].T, rtol=1e-14)
    assert sparse.T is sparse.T and sparse[:, 2:] is sparse[:, 2:]
    for wrong in (lambda: x @ sparse, lambda: sparse.T + 1, lambda: sparse.T @ x):
        with pytest.raises(TypeError):
            wrong()


def test_without_scipy_a_line_says_so(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(UserError, match="sparse products: scipy is not installed"):
        sparse_matrix(np.eye(2))
