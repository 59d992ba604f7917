"""Attention in each way, and the attentional vector, beside eager PyTorch.

An attention kernel is all that comes between the encoder's states and the contexts: the memory,
T target states of B sentences of S words that look at it at once, and on the way back the gradients
of states, queries and weights. Operations are those of the matrix products and of the sums over
source positions: a window looks at min(2D + 1, S) of them. What is not a product (tanh of the sums,
gathers) counts nothing, so a low rate there does not say that a product is slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attention.attend import (
    attentional_backward,
    attentional_forward,
    memory_backward,
    memory_forward,
)
from attention.look import (
    PREFIX,
    look_backward,
    look_forward,
    look_memory_backward,
    make_sums,
)
from attention.scores import SUMS, score_weights
from attention.way import Way
from benchmarks.sides import Arrays, Kernel, Passes, Results

WAYS = (
    Way(), Way("dot"), Way("concat"), Way("additive"), Way("location"),
    Way(window="local-m"), Way(window="local-p"),
)


def attention(way: Way, S: int, T: int, B: int, H: int) -> Kernel:
    """One way of attending, of sentences of one length; He = H."""
    rng = np.random.default_rng(1)
    way = way._replace(length=S)
    arrays = {name: rng.normal(size=shape) * 0.5 for name, shape in
              (("states", (S, B, H)), ("h", (B, T, H)), ("dc", (B, T, H)))}
    for name, weight in score_weights(way, PREFIX, H, H).items():
        arrays[name] = rng.uniform(-1, 1, weight.shape) / np.sqrt(H)
    inputs = {name: array.astype(np.float32) for name, array in arrays.items()}
    sizes = {"S": S, "T": T, "B": B, "H": H} | ({"D": way.D} if way.local else {})
    forward = operations(way, S, T, B, H)
    return Kernel(f"attention {way.window} {way.score}", sizes, inputs,
                  {"forward": forward, "both": 3 * forward}, "FLOP",
                  lambda a: our_attention(way, a),
                  {"eager PyTorch": lambda a: torch_attention(way, a)})


def operations(way: Way, S: int, T: int, B: int, H: int) -> float:
    """A multiplication and an addition for each pair that the forward's products have."""
    seen = min(2 * way.D + 1, S) if way.local else S
    context, square = B * T * seen * H, H * H
    pairs = context if way.score == "location" else 2 * context  # the scores are as many
    if way.score == "location":
        pairs += B * T * S * H
    elif way.score in SUMS:
        pairs += B * T * square + B * S * square
    elif way.score == "general":
        pairs += (B * T if way.local else B * S) * square
    if way.window == "local-p":
        pairs += B * T * square
    return 2.0 * pairs


def our_attention(way: Way, a: Arrays) -> Passes:
    """Memory, look, and back."""
    h = a["h"]

    def forward() -> Results:
        return {"c": look_forward(h, memory_forward(a["states"], None, way, a, PREFIX), a)[0]}

    def both() -> Results:
        memory = memory_forward(a["states"], None, way, a, PREFIX)
        c, seen = look_forward(h, memory, a)
        sums = make_sums(memory, a)
        dh, pulled = look_backward(a["dc"], seen, memory, a, sums)
        d, gradients = look_memory_backward(a["dc"], h, [seen], [pulled], memory, a, sums)
        d_states, more = memory_backward(d.dhbar, d.dkeys, memory, a, PREFIX, d.d_query)
        return {"c": c, "dh": dh, "d_states": d_states, **gradients, **more}

    return Passes({"forward": forward, "both": both})


def torch_attention(way: Way, a: Arrays) -> Passes:
    """The peer of the training step; a window is a mask over the whole sentence there."""
    import torch

    from benchmarks.peer_attention import Memory, look, make_keys

    S, B, _ = a["states"].shape
    names = [name for name in a if name != "dc"]
    leaves = {name: a[name].requires_grad_() for name in names}
    weights = {name.split(".")[1]: leaf for name, leaf in leaves.items() if "." in name}
    lengths = torch.full((B,), S, device=a["states"].device)

    def run() -> Any:
        hbar = leaves["states"].transpose(0, 1).contiguous()
        memory = Memory(hbar, make_keys(way, weights, hbar), None, lengths)
        return look(way, weights, leaves["h"], memory, 1)

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


def attention_step(way: Way, S: int, B: int, H: int) -> Kernel:
    """One target state a sentence looks at a memory that is there already, and back to h_t.

    What input feeding does T times. The memory's own gradients wait until after the last step.
    """
    full = attention(way, S, 1, B, H)
    forward = 2.0 * B * H * (2 * (min(2 * way.D + 1, S) if way.local else S)
                             + (H if way.local and way.score == "general" else 0))
    return Kernel(f"attention step {way.window} {way.score}", dict(full.sizes), full.inputs,
                  {"both": 2 * forward}, "FLOP", lambda a: our_attention_step(way, a),
                  {"eager PyTorch": lambda a: torch_attention_step(way, a)})


def our_attention_step(way: Way, a: Arrays) -> Passes:
    """Look and back, at the sentence's middle."""
    memory = memory_forward(a["states"], None, way, a, PREFIX)
    t = len(a["states"]) // 2

    def both() -> Results:
        c, seen = look_forward(a["h"], memory, a, t)
        return {"c": c, "dh": look_backward(a["dc"], seen, memory, a, None)[0]}

    return Passes({"both": both})


def torch_attention_step(way: Way, a: Arrays) -> Passes:
    """The same with a mask over the whole sentence."""
    import torch

    from benchmarks.peer_attention import Memory, look, make_keys

    S, B, _ = a["states"].shape
    weights = {name.split(".")[1]: value for name, value in a.items() if "." in name}
    hbar, h = a["states"].transpose(0, 1).contiguous(), a["h"].requires_grad_()
    lengths = torch.full((B,), S, device=h.device)
    memory = Memory(hbar, make_keys(way, weights, hbar), None, lengths)

    def both() -> Results:
        c = look(way, weights, h, memory, S // 2)
        return {"c": c, "dh": torch.autograd.grad(c, [h], a["dc"])[0]}

    return Passes({"both": both})
