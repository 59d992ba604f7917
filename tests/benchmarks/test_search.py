"""The peers' beam search finds our hypotheses; a search with other hypotheses is not timed."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from strict.module import strict
from timed import cases, parse, prepare, run

from backend.host import blas_threads
from benchmarks import search
from benchmarks.devices import CPU, Device
from benchmarks.timing import blas_kernels
from nmt.data.batches import make_sources
from nmt.data.vocabulary import END
from nmt.models.transformer import Transformer, TransformerConfig
from nmt.models.translator import ModelConfig, Translator
from nmt.search.beam import beam_search
from nmt.search.interface import SearchOptions

torch = pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
peer, peer_search = (import_module(f"grads.verification.reference.{name}")
                     for name in ("peer", "search"))
QUICK = ["--quick", "--device", "cpu", "--output", os.devnull]  # unless another is named


LUONG = Translator(ModelConfig(hidden_size=6, embedding_size=5, output_bias=True, scale=0.8),
                   12, 13)
TRANSFORMERS = [Transformer(TransformerConfig(2, 3, 8, 10, 2, norm=norm, pre_norm=pre, dropout=0.0,
                                              initialisation="normal"), 12, 13)
                for norm, pre in (("layer", True), ("scale", False))]


def both(end, nbest, beam=4, steps=9, seed=1, model=LUONG):
    """Our and PyTorch's hypotheses of a small translator on ragged sources. end: the end marker's
    bias."""
    parameters = model.initial_parameters(np.random.default_rng(seed), "float64")
    parameters["output.b"][END] = end
    rng = np.random.default_rng(seed + 1)
    words = [rng.integers(2, 12, n).tolist() for n in (3, 7, 1, 5, 2)]
    sources = make_sources(words, reverse=False)
    how = SearchOptions(beam=beam, nbest=nbest, length_factor=1e-9, minimum_steps=steps)
    ours = beam_search(model, parameters, sources, how)
    theirs = peer.Peer(model, parameters)
    return ours, peer_search.beam_search(theirs, *sources, beam, steps, nbest)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("end", [-1e4, -0.1, 0.0, 0.1, 0.5])
@pytest.mark.parametrize("beam, nbest", [(1, 1), (4, 1), (4, 3), (4, 4), (15, 15)])
@pytest.mark.parametrize("model", [LUONG, *TRANSFORMERS], ids=["luong", "pre-layer", "post-scale"])
def test_the_same_hypotheses_and_scores(end, beam, nbest, seed, model):
    ours, theirs = both(end, nbest, beam, seed=seed, model=model)
    for mine, expected in zip(ours, theirs, strict=True):
        assert [(h.tokens, h.finished) for h in mine] == [(h.tokens, h.finished) for h in expected]
        np.testing.assert_allclose([h.log_probability for h in mine],
                                   [h.log_probability for h in expected], rtol=1e-10)


def test_finished_and_cut_hypotheses_occur():
    kinds = {end: {h.finished for mine in both(end, 4)[0] for h in mine}
             for end in (-1e4, 0.0, 0.5)}
    assert kinds[-1e4] == {False} and kinds[0.0] == {True, False} and kinds[0.5] == {True}


def test_quick(tmp_path, capsys):
    path, record = run("search", tmp_path, "--device", "cpu")
    assert path.name == f"search-{blas_kernels()}.json"
    sizes = [(row["sizes"]["beam"], row["sizes"]["sentences"]) for row in record["rows"]]
    assert sizes == 2 * [(1, 1), (1, 3), (3, 1), (3, 3)]
    assert [row["case"] for row in record["rows"]][3:5] == ["beam 3", "Transformer, greedy"]
    for row in record["rows"]:
        compiled = row["case"].startswith("Transformer") and find_spec("ctranslate2") is not None
        assert list(row["seconds"]) == ["here", "PyTorch", *["CTranslate2"] * compiled]
        assert row["differences"]["float32"] < 1e-4 and row["differences"]["float64"] < 1e-9
    assert capsys.readouterr().out.count("   ratio ") == sum(
        len(row["seconds"]) - 1 for row in record["rows"])
    assert (tmp_path / f"search-{blas_kernels()}.png").stat().st_size > 1000


def test_nothing_is_transferred_implicitly():
    """On the stand-in for CuPy, as on a GPU."""
    case = list(cases("search", QUICK))[-1]
    assert (case.sizes["beam"], case.sizes["sentences"]) == (3, 3)
    differences = prepare(case, Device("gpu", strict, "cpu", lambda: None))
    assert 0 < differences["float32"] < 1e-4 and 0 <= differences["float64"] < 1e-9


def spoil(monkeypatch, change):
    """PyTorch's search with every hypothesis changed."""
    right = peer_search.beam_search

    def wrong(*arguments):
        return [[change(h) for h in hypotheses] for hypotheses in right(*arguments)]

    monkeypatch.setattr(peer_search, "beam_search", wrong)


@pytest.mark.parametrize("change, said", [
    (lambda h: h._replace(tokens=h.tokens[::-1]), "the hypotheses of here and PyTorch differ"),
    (lambda h: h._replace(log_probability=h.log_probability * 1.001), "differ by 1.0e-03"),
])  # fmt: skip
def test_a_wrong_search_is_not_timed(monkeypatch, tmp_path, change, said):
    spoil(monkeypatch, change)
    with pytest.raises(AssertionError, match=said):
        run("search", tmp_path, "--device", "cpu", "--only", "beam=3 sentences=3")
    assert not list(tmp_path.iterdir())


def test_hypotheses_that_end_are_not_equal_work(monkeypatch, tmp_path):
    monkeypatch.setattr(search, "NEVER", 3.0)
    with pytest.raises(AssertionError, match="ended"):
        run("search", tmp_path, "--device", "cpu")


def test_the_threads_are_those_of_numpy(monkeypatch):
    thread_counts = []
    monkeypatch.setattr(torch, "set_num_threads", thread_counts.append)
    model, parameters = search.make_models(parse("search", QUICK))[""]
    search.beside_pytorch(model, parameters, 3, CPU, "float32", [[3, 4]], 2)
    search.beside_pytorch(model, parameters, 3, replace_torch(CPU), "float32", [[3, 4]], 2)
    assert thread_counts == [blas_threads()]


def replace_torch(device):
    """A device that PyTorch cannot use."""
    return device._replace(torch=None)


def test_the_peer_needs_input_feeding_and_global_attention():
    config = replace(ModelConfig(hidden_size=4, embedding_size=4), attention="local-m")
    model = Translator(config, 9, 9)
    theirs = peer.Peer(model, model.initial_parameters(np.random.default_rng(1)))
    with pytest.raises(AssertionError):
        peer_search.beam_search(theirs, *make_sources([[3, 3]], reverse=False), 2, 3)
