"""Variants of attention, compared with eager PyTorch.

An attention kernel is everything between the encoder's states and the contexts: the memory, T
target states of B sentences of S words that attend to it at once, and in the backward pass the
gradients of states, queries and weights. The counted operations are those of the matrix products
and of the sums over source positions, min(2D + 1, S) in a window. Others (tanh, gathers) are not
counted, so a low rate does not mean that a matrix product is slow.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attention.attention import memory_forward
from attention.scores import SCORES, TANH, Variant, score_weights
from benchmarks.case import Results
from benchmarks.kernel import Arrays, Kernel, Passes, autograd, differentiated, leaves_of
from lstm.parameters import Scheme

PREFIX = "attention"
VARIANTS = (
    Variant(), Variant("dot"), Variant("concat"), Variant("additive"), Variant("location"),
    Variant(window="local-m"), Variant(window="local-p"),
)


def attention(variant: Variant, S: int, T: int, B: int, H: int) -> Kernel:
    """A variant, for sentences of one length; He = H."""
    variant = variant._replace(length=S)
    sizes = {"S": S, "T": T, "B": B, "H": H}
    if variant.window != "global":
        sizes["D"] = variant.D
    forward = operations(variant, S, T, B, H)
    return Kernel(f"attention {variant.window} {variant.score}", sizes,
                  partial(draw, variant, S, T, B, H), {"forward": forward, "both": 3 * forward},
                  "FLOP", partial(our_attention, variant),
                  {"eager PyTorch": partial(torch_attention, variant)})


def draw(
    variant: Variant, S: int, T: int, B: int, H: int, dtype: str = "float32", seed: int = 1
) -> dict[str, np.ndarray]:
    """States (S, B, H), queries h and the contexts' gradients dc (B, T, H), and weights."""
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=shape) * 0.5 for name, shape in
              (("states", (S, B, H)), ("h", (B, T, H)), ("dc", (B, T, H)))}
    for name, weight in score_weights(variant, PREFIX, H, H, Scheme()).items():
        arrays[name] = rng.uniform(-1, 1, weight.shape) / np.sqrt(H)
    return {name: array.astype(dtype) for name, array in arrays.items()}


def operations(variant: Variant, S: int, T: int, B: int, H: int) -> float:
    """A multiplication and an addition for each pair of factors in the forward's products."""
    held = min(2 * variant.D + 1, S) if variant.window != "global" else S
    context, square = B * T * held * H, H * H
    pairs = context if variant.score == "location" else 2 * context  # the scores are as many
    if variant.score == "location":
        pairs += B * T * S * H
    elif SCORES[variant.score].energy is TANH:
        pairs += B * T * square + B * S * square
    elif variant.score == "general":
        pairs += (B * T if variant.window != "global" else B * S) * square
    if variant.window == "local-p":
        pairs += B * T * square
    return 2.0 * pairs


def our_attention(variant: Variant, a: Arrays) -> Passes:
    """Memory and contexts, forward and backward."""
    S, B, _ = a["states"].shape
    lengths = np.full(B, S)

    def forward() -> tuple[Results, Any]:
        memory = memory_forward(a["states"], lengths, variant, a, PREFIX)
        c, cache = memory.attend(a["h"])
        return {"c": c}, (memory, cache)

    def backward(cache: Any) -> Results:
        memory, cache = cache
        sums = memory.accumulators()
        dh, step = memory.attend_backward(a["dc"], cache, sums)
        d_states, gradients = memory.gradients(a["dc"], a["h"], [cache], [step], sums)
        return {"dh": dh, "d_states": d_states, **gradients}

    return differentiated(forward, backward)


def torch_attention(variant: Variant, a: Arrays) -> Passes:
    """The reference, in which a window is a mask over the whole sentence."""
    import torch

    from grads.verification.reference.attention import Attention, context, remember

    S, B, H = a["states"].shape
    how = Attention(variant.score, variant.window, variant.D, variant.renormalise, variant.reverse)
    w = {name.split(".")[1]: value for name, value in a.items() if "." in name}
    leaves = leaves_of(a, {"h": "dh", "states": "d_states"} | {n: n for n in a if "." in n})

    def run() -> Results:
        return {"c": context(how, w, remember(how, w, a["states"], torch.full((B,), S), H), a["h"])}

    return autograd(run, leaves, {"c": a["dc"]})
