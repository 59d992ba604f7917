"""Content-based scores between a target state h_t and the source states hbar_s (section 4.2.1).

`dot` is h_t' hbar_s, `general` is h_t' W_a hbar_s. Both are products of h_t with a key made once
per sentence, k_s = hbar_s or W_a hbar_s, and differ in nothing else: a score here is the pair that
makes the keys. Others stand beside them in `SCORES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from backend import Array
from lstm.parameters import Parameters, Weight


def score_weights(score: str, prefix: str, hidden: int, source_hidden: int) -> dict[str, Weight]:
    """The parameters of a score by name.

    Arguments: hidden H, width of h_t; source_hidden He, width of hbar_s.
    Raises ValueError on an unknown score, and for `dot` unless H = He.
    """
    if score not in SCORES:
        raise ValueError(f"score: expected one of {', '.join(SCORES)}, got {score!r}")
    if score == "dot":
        if hidden != source_hidden:
            raise ValueError(
                f"score: 'dot' needs source and target states of one width, got {source_hidden} "
                f"and {hidden}"
            )
        return {}
    return {f"{prefix}.W_a": Weight((hidden, source_hidden))}


def dot_keys_forward(hbar: Array, parameters: Mapping[str, Array], prefix: str) -> Array:
    """k_s = hbar_s: (B, S, H)."""
    return hbar                                            # (4.2.1 dot)


def dot_keys_backward(
    dkeys: Array, hbar: Array, parameters: Mapping[str, Array], prefix: str
) -> tuple[Array, Parameters]:
    """dhbar_s = dk_s: (B, S, H)."""
    return dkeys, {}


def general_keys_forward(hbar: Array, parameters: Mapping[str, Array], prefix: str) -> Array:
    """k_s = W_a hbar_s, so that h_t' k_s is the score `general`.

    Arguments: hbar (B, S, He), W_a (H, He). Returns (B, S, H).
    """
    W_a = parameters[f"{prefix}.W_a"]
    B, S, He = hbar.shape
    return (hbar.reshape(B * S, He) @ W_a.T).reshape(B, S, -1)  # (4.2.1 general)


def general_keys_backward(
    dkeys: Array, hbar: Array, parameters: Mapping[str, Array], prefix: str
) -> tuple[Array, Parameters]:
    """Corollary 1: dhbar_s = W_a' dk_s (B, S, He) and dW_a = sum of dk_s hbar_s'."""
    W_a = parameters[f"{prefix}.W_a"]
    B, S, He = hbar.shape
    dkey_rows = dkeys.reshape(B * S, -1)
    return (dkey_rows @ W_a).reshape(B, S, He), {               # (2.13)
        f"{prefix}.W_a": dkey_rows.T @ hbar.reshape(B * S, He)  # (2.14)
    }


SCORES = {
    "dot": (dot_keys_forward, dot_keys_backward),
    "general": (general_keys_forward, general_keys_backward),
}
