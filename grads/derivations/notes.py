"""Two translators of lecture notes and slides, each a choice of the parts of `translator`.

| name | source | encoder | c_t | prediction |
|---|---|---|---|---|
| `encoder-decoder` | Nair and Shah, 6.2 | reads forward | h_T | softmax(M m_t + b) |
| `simplified` | Sennrich | from both ends | by alignment | tanh of s_{i-1}, E y_{i-1}, c_i |

Both have plain recurrent units, and a decoder that reads [E y_{t-1}; c_t]: Nair's m_t is s_t in the
code. Parameters have the kernels' names: `encoder.0.W`, or `encoder.0.forward.W` and `.backward.W`,
(H, E + H); `decoder.0.W` (H, E + He + H), columns word, context, state; `bridge.W_s` (H, H); the
score's W_a (H, H), U_a (H, 2H), v_a (H,); the prediction's W_hy (V, H), or W_o (V, M) above a
layer of U_o, V_o, C_o. The slides' decoder has no biases.
"""

from __future__ import annotations

from functools import partial

from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    PAIR,
    TRANSLATION,
    Example,
    Request,
    Shapes,
    Sizes,
    translation_example,
)
from grads.derivations.model import Model
from grads.derivations.rnn import ONE_EMBEDDING, PRINTED_SIGN
from grads.derivations.translator import translator_backward, translator_forward


def encoder_decoder_shapes(V_s: int, V_t: int, sizes: Sizes) -> Shapes:
    """The parameters of Nair and Shah's encoder-decoder."""
    H, E = sizes.hidden, sizes.embedding
    shapes = {**_embeddings(V_s, V_t, E), "encoder.0.W": (H, E + H), "bridge.W_s": (H, H),
              "decoder.0.W": (H, E + H + H), "output.W_hy": (V_t, H)}
    return shapes | ({"encoder.0.b": (H,), "bridge.b": (H,), "decoder.0.b": (H,),
                      "output.b": (V_t,)} if sizes.biases else {})


def simplified_shapes(V_s: int, V_t: int, sizes: Sizes) -> Shapes:
    """The parameters of Sennrich's attentional decoder."""
    H, E, M = sizes.hidden, sizes.embedding, sizes.hidden + 1
    return {**_embeddings(V_s, V_t, E), "encoder.0.forward.W": (H, E + H),
            "encoder.0.backward.W": (H, E + H), "bridge.W_s": (H, H),
            "decoder.0.W": (H, E + 2 * H + H), "attention.W_a": (H, H),
            "attention.U_a": (H, 2 * H), "attention.v_a": (H,), "output.U_o": (M, H),
            "output.V_o": (M, E), "output.C_o": (M, 2 * H), "output.W_o": (V_t, M)}


def _embeddings(V_s: int, V_t: int, E: int) -> Shapes:
    return {"encoder.W_e": (V_s, E), "decoder.W_e": (V_t, E)}


MODELS = {
    "encoder-decoder": (encoder_decoder_shapes, Model(
        "rnn", 0, "one end", "first state", "state", context="last", deep_state="now")),
    "simplified": (simplified_shapes, Model(
        "rnn", 0, "both ends", "first state", "context", context="search", layer="tanh",
        deep_state="before")),
}


def notes_example(name: str, request: Request) -> Example:
    """A sentence and its translation for a model of MODELS."""
    shapes, model = MODELS[name]
    return translation_example(shapes, request, model=model._replace(H=request.sizes.hidden))


READING = "grads.derivations.reading"
FORGOTTEN = Mistake(
    f"{READING}.read_contexts_grad", "ds[i - 1] = ds_deep[i - 1] + ds_prev",
    "ds[i - 1] = ds_deep[i - 1]", "the state gets nothing from the step after it.")
DECLARATIONS = (
    Declaration(
        "encoder-decoder", "The encoder-decoder of Nair and Shah, 6.2", translator_forward,
        translator_backward, partial(notes_example, "encoder-decoder"), PAIR, TRANSLATION,
        attentive=False, mistakes={
            **PRINTED_SIGN,
            "context of the last step alone": Mistake(
                f"{READING}.read_contexts_grad", "dh_bar = dh_bar + dh_read", "dh_bar = dh_read",
                "c is read at every step: its gradient is the sum over all of them."),
            "state forgotten": FORGOTTEN, **ONE_EMBEDDING,
        }),
    Declaration(
        "simplified", "The attentional decoder of Sennrich's slides", translator_forward,
        translator_backward, partial(notes_example, "simplified"), PAIR, TRANSLATION, mistakes={
            **PRINTED_SIGN,
            "alignment model forgotten": Mistake(
                f"{READING}.reading_step_grad", "ds_unit + ds_align", "ds_unit",
                "s_{i-1} gets no gradient through the alignment model."),
            "state forgotten": FORGOTTEN, **ONE_EMBEDDING,
        }),
)
