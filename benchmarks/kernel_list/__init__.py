"""The product's kernels, each a `benchmarks.kernel.Kernel` with PyTorch's equivalent."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.kernel import Kernel
from benchmarks.kernel_list import attention, recurrent, words
from benchmarks.timing import blas_kernels

# Goals for our time / PyTorch's with native BLAS kernels, by T, B, H.
LSTM_GOALS = {
    (30, 8, 64): {"nn.LSTM": 1.3},
    (30, 32, 256): {"nn.LSTM": 1.1},
    (30, 64, 512): {"nn.LSTM": 0.95, "nn.LSTMCell loop": 0.4},
    (30, 128, 1000): {"nn.LSTM": 0.97},
}


def all_kernels(quick: bool) -> Iterator[Kernel]:
    """All kernels. The arrays of a kernel are made when it is timed."""
    yield from lstm_layers(quick)
    T, B, H, V = (3, 2, 4, 11) if quick else (30, 64, 512, 10_000)
    yield recurrent.layer("gru", T, B, H)
    yield recurrent.step(B, H)
    for variant in attention.VARIANTS:
        variant = variant._replace(D=1) if quick else variant
        yield attention.attention(variant, 5 if quick else 50, T, B, H)
    yield words.embedding(B * T, V, H)
    yield words.prediction(B * T, H, V)
    for name in words.RULES:
        yield words.update(name, H, V)
    yield words.norm(H, V)


def lstm_layers(quick: bool) -> Iterator[Kernel]:
    """The LSTM layers with a goal for their speed, or a tiny one. There are no goals for Haswell
    kernels."""
    goals = LSTM_GOALS if blas_kernels() == "native" else {}
    for shape in [(3, 2, 4)] if quick else list(LSTM_GOALS):
        yield recurrent.layer("lstm", *shape, goals=goals.get(shape))
