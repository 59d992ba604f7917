"""The product's kernels, each a `benchmarks.implementations.Kernel` with PyTorch's equivalent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.implementations import Kernel
from benchmarks.kernel_list import attention, recurrent, updates, words
from benchmarks.timing import blas_kernels

# Goals for our time / PyTorch's, by T, B, H: those of a prototype with native BLAS kernels.
LSTM_GOALS = {
    (30, 32, 256): {("nn.LSTM", "both"): 1.2},
    (30, 64, 512): {("nn.LSTM", "both"): 0.95, ("nn.LSTMCell loop", "both"): 0.4},
    (30, 128, 1000): {("nn.LSTM", "both"): 0.97},
}
ROOFLINE_GOAL = 0.88  # of NumPy's own GEMM, for the layer of ROOFLINE_SIZES, both passes
ROOFLINE_SIZES = {"T": 30, "B": 64, "H": 512}


def all_kernels(quick: bool) -> Iterator[Callable[[], Kernel]]:
    """Makers of all kernels: the arrays of one are made when it is timed."""
    yield from lstm_layers(quick)
    T, B, H, V = (3, 2, 4, 11) if quick else (30, 64, 512, 10_000)
    for unit in ("rnn", "gru"):
        yield partial(recurrent.layer, unit, T, B, H)
    yield partial(recurrent.stack, 2, T, B, H)
    yield partial(recurrent.step, B, H)
    for variant in attention.VARIANTS:
        variant = variant._replace(D=1) if quick else variant
        yield partial(attention.attention, variant, 5 if quick else 50, T, B, H)
    N = B * T
    yield partial(attention.attentional_vector, N, H)
    yield partial(words.embedding, N, V, H)
    yield partial(words.softmax_cross_entropy, N, V)
    yield partial(words.prediction, N, H, V)
    for name in updates.RULES:
        yield partial(updates.update, name, H, V)
    yield partial(updates.norm, H, V)


def lstm_layers(quick: bool) -> Iterator[Callable[[], Kernel]]:
    """The LSTM layers with a goal for their speed, or a tiny one. There are no goals for Haswell
    kernels."""
    shapes = [(3, 2, 4)] if quick else list(LSTM_GOALS)
    goals = LSTM_GOALS if blas_kernels() == "native" else {}
    for shape in shapes:
        yield partial(recurrent.layer, "lstm", *shape, goals.get(shape))
