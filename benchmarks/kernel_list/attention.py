"""Variants of attention, and the attentional vector, beside eager PyTorch.

An attention kernel is everything between the encoder's states and the contexts: the memory, T
target states of B sentences of S words that attend to it at once, and in the backward pass the
gradients of states, queries and weights. Operations are those of the matrix products and of the
sums over source positions, min(2D + 1, S) in a window. Everything else (tanh, gathers) is not
counted, so a low rate does not mean that a matrix product is slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attention.attention import (
    accumulators,
    attention_backward,
    attention_forward,
    attentional_backward,
    attentional_forward,
    memory_backward,
    memory_forward,
)
from attention.scores import SCORES, Variant, score_weights
from benchmarks.implementations import Arrays, Kernel, Passes, Results
from lstm.parameters import Scheme

PREFIX = "attention"
VARIANTS = (
    Variant(), Variant("dot"), Variant("concat"), Variant("additive"), Variant("location"),
    Variant(window="local-m"), Variant(window="local-p"),
)


def attention(variant: Variant, S: int, T: int, B: int, H: int) -> Kernel:
    """One variant, over sentences of one length; He = H."""
    rng = np.random.default_rng(1)
    variant = variant._replace(length=S)
    arrays = {name: rng.normal(size=shape) * 0.5 for name, shape in
              (("states", (S, B, H)), ("h", (B, T, H)), ("dc", (B, T, H)))}
    for name, weight in score_weights(variant, PREFIX, H, H, Scheme()).items():
        arrays[name] = rng.uniform(-1, 1, weight.shape) / np.sqrt(H)
    inputs = {name: array.astype(np.float32) for name, array in arrays.items()}
    sizes = {"S": S, "T": T, "B": B, "H": H} | ({"D": variant.D} if variant.local else {})
    forward = operations(variant, S, T, B, H)
    return Kernel(f"attention {variant.window} {variant.score}", sizes, inputs,
                  {"forward": forward, "both": 3 * forward}, "FLOP",
                  lambda a: our_attention(variant, a),
                  {"eager PyTorch": lambda a: torch_attention(variant, a)})


def operations(variant: Variant, S: int, T: int, B: int, H: int) -> float:
    """A multiplication and an addition for each pair that the forward's products have."""
    held = min(2 * variant.D + 1, S) if variant.local else S
    context, square = B * T * held * H, H * H
    pairs = context if variant.score == "location" else 2 * context  # the scores are as many
    if variant.score == "location":
        pairs += B * T * S * H
    elif SCORES[variant.score].energy.sums:
        pairs += B * T * square + B * S * square
    elif variant.score == "general":
        pairs += (B * T if variant.local else B * S) * square
    if variant.window == "local-p":
        pairs += B * T * square
    return 2.0 * pairs


def our_attention(variant: Variant, a: Arrays) -> Passes:
    """Memory and contexts, forward and backward."""
    h = a["h"]

    def forward() -> Results:
        return {"c": attention_forward(h, memory_forward(a["states"], None, variant, a, PREFIX))[0]}

    def both() -> Results:
        memory = memory_forward(a["states"], None, variant, a, PREFIX)
        c, cache = attention_forward(h, memory)
        sums = accumulators(memory)
        dh, step = attention_backward(a["dc"], cache, memory, sums)
        d_states, gradients = memory_backward(a["dc"], h, [cache], [step], memory, sums)
        return {"c": c, "dh": dh, "d_states": d_states, **gradients}

    return Passes({"forward": forward, "both": both})


def torch_attention(variant: Variant, a: Arrays) -> Passes:
    """The reference, in which a window is a mask over the whole sentence."""
    import torch

    from grads.verification.reference.attention import context, remember

    how, w, lengths = torch_inputs(variant, a)
    leaves = {name: a[name].requires_grad_() for name in a if name != "dc"}

    def run() -> Any:
        h = leaves["h"]
        return context(how, w, remember(how, w, leaves["states"], lengths, h.shape[2]), h)

    def forward() -> Results:
        with torch.no_grad():
            return {"c": run()}

    def both() -> Results:
        c = run()
        gradients = torch.autograd.grad(c, list(leaves.values()), a["dc"])
        found = {name if "." in name else {"h": "dh", "states": "d_states"}[name]: gradient
                 for name, gradient in zip(leaves, gradients, strict=True)}
        return {"c": c, **found}

    return Passes({"forward": forward, "both": both})


def torch_inputs(variant: Variant, a: Arrays) -> tuple[Any, dict[str, Any], Any]:
    """The variant, its weights and the sentences' lengths as the reference takes them."""
    import torch

    from grads.verification.reference.attention import Attention

    S, B, _ = a["states"].shape
    how = Attention(variant.score, variant.window, variant.D, variant.renormalise, variant.reverse)
    w = {name.split(".")[1]: value for name, value in a.items() if "." in name}
    return how, w, torch.full((B,), S)


def attentional_vector(N: int, H: int) -> Kernel:
    """h~ = tanh(W_c [c; h]) for N target states, with the gradient of W_c; He = H."""
    rng = np.random.default_rng(1)
    shapes = {"joined": (N, 2 * H), "W_c": (H, 2 * H), "dh_tilde": (N, H)}
    inputs = {name: (rng.normal(size=shape) / np.sqrt(H)).astype(np.float32)
              for name, shape in shapes.items()}
    forward = 2.0 * N * H * 2 * H
    return Kernel("attentional vector", {"N": N, "H": H}, inputs,
                  {"forward": forward, "both": 3 * forward}, "FLOP", our_vector,
                  {"eager PyTorch": torch_vector})


def our_vector(a: Arrays) -> Passes:
    """Eq. 4.5 and its backward."""
    joined, W_c = a["joined"], a["W_c"]

    def forward() -> Results:
        return {"h_tilde": attentional_forward(joined, W_c)}

    def both() -> Results:
        h_tilde = attentional_forward(joined, W_c)
        d_joined, dz = attentional_backward(a["dh_tilde"], h_tilde, W_c)
        return {"h_tilde": h_tilde, "d_joined": d_joined, "W_c": dz.T @ joined}

    return Passes({"forward": forward, "both": both})


def torch_vector(a: Arrays) -> Passes:
    """A linear map and a tanh."""
    import torch
    from torch.nn import functional

    joined, W_c = (a[name].requires_grad_() for name in ("joined", "W_c"))

    def forward() -> Results:
        with torch.no_grad():
            return {"h_tilde": functional.linear(joined, W_c).tanh()}

    def both() -> Results:
        h_tilde = functional.linear(joined, W_c).tanh()
        d_joined, dW_c = torch.autograd.grad(h_tilde, [joined, W_c], a["dh_tilde"])
        return {"h_tilde": h_tilde, "d_joined": d_joined, "W_c": dW_c}

    return Passes({"forward": forward, "both": both})



# --- one decoder step -----------------------------------------------------------------------------


def attention_step(variant: Variant, S: int, B: int, H: int) -> Kernel:
    """One target state a sentence attends to a memory made before; backward to h_t.

    Input feeding does this T times. The memory's gradients follow after the last step.
    """
    full = attention(variant, S, 1, B, H)
    forward = 2.0 * B * H * (2 * (min(2 * variant.D + 1, S) if variant.local else S)
                             + (H if variant.local and variant.score == "general" else 0))
    return Kernel(f"attention step {variant.window} {variant.score}", dict(full.sizes), full.inputs,
                  {"both": 2 * forward}, "FLOP", lambda a: our_attention_step(variant, a),
                  {"eager PyTorch": lambda a: torch_attention_step(variant, a)})


def our_attention_step(variant: Variant, a: Arrays) -> Passes:
    """A context and back, at the sentence's middle."""
    memory = memory_forward(a["states"], None, variant, a, PREFIX)
    t = len(a["states"]) // 2

    def both() -> Results:
        c, cache = attention_forward(a["h"], memory, t)
        dh, _ = attention_backward(a["dc"], cache, memory, accumulators(memory))
        return {"c": c, "dh": dh}

    return Passes({"both": both})


def torch_attention_step(variant: Variant, a: Arrays) -> Passes:
    """The reference's step, with a mask over the whole sentence."""
    import torch

    from grads.verification.reference.attention import context, remember

    how, w, lengths = torch_inputs(variant, a)
    S, h = len(a["states"]), a["h"].requires_grad_()
    memory = remember(how, w, a["states"], lengths, h.shape[2])

    def both() -> Results:
        c = context(how, w, memory, h, S // 2)
        return {"c": c, "dh": torch.autograd.grad(c, [h], a["dc"])[0]}

    return Passes({"both": both})
