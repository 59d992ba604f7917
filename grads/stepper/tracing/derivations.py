"""The table of derivations for the tracer: functions, examples, and pairs of names."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from grads import derivations
from grads.derivations import (
    attention,
    attention_step,
    calculus,
    deep_output,
    gru,
    local,
    lstm,
    nmt,
    rnn,
    rnnsearch,
    scores,
    transformer,
)
from grads.derivations.declaration import LOSS, OUTPUT, OUTPUT_TRACE, Declaration
from grads.derivations.examples import (
    PAIR,
    Example,
    attention_step_example,
    gru_example,
    language_example,
    search_example,
    translation_example,
)
from grads.stepper.tracing import breaks
from grads.stepper.tracing.nearest import nearest
from grads.stepper.tracing.pairing import Pairing
from grads.stepper.tracing.run import Derivation, Run

__all__ = ["DERIVATIONS", "FOLLOW", "Derivation", "Run", "find"]

MODULES = [import_module(f"{derivations.__name__}.{one.name}")
           for one in iter_modules(derivations.__path__)]
DECLARED: list[Declaration] = [one for module in MODULES
                               for one in getattr(module, "DECLARATIONS", ())]
FOLLOW = tuple(dict.fromkeys((
    calculus, rnn, lstm, nmt, attention, attention_step, scores, local, gru, deep_output, rnnsearch,
    transformer,
    *(import_module(one.forward.__module__) for one in DECLARED if not one.apart))))

# --- which backward belongs to which forward, and names that do not follow the rule -------------

PARTNERS = {f"{name}_grad": name for module in FOLLOW for name in vars(module)
            if f"{name}_grad" in vars(module)}
MODEL = {**PARTNERS, "backward": "forward"}
ATTENTIONAL = {**PARTNERS, "attentional_nmt_backward": "attentional_nmt_forward",
               "decoder_grad": "attentional_nmt_forward", "encoder_grad": "run_encoder"}
PAIRS = {
    "lstm_grad.dT_x": "T:first columns",
    "lstm_grad.dT_h": "T:last columns",
    "attend_grad.dc_joined": "c in v",
    "attend_grad.dh_joined": "h in v",
    "attend_grad.dh_bar_context": "h_bar in c",
    "context_grad.dh_context": "h in c",
    "backward.dv_align": "v in q",
    "backward.d_first": "left[1] in a_s",
    "backward.gradients": "parameters",
    "backward.saved": "parameters",
    "attentional_nmt_backward.gradients": "parameters",
}
SHARES = {
    "decoder_grad.d_read": "dh_bar in the order in which the encoder read, added to dg_s in turn",
    "encode_grad.dh_right": "the rows of dh that belong to ->h_1 .. ->h_S, added to each in turn",
    "encode_grad.dh_left": "the rows of dh that belong to <-h_1 .. <-h_S, added to each in turn",
}


# --- single steps: the loss is sum(upstream gradient * output) ----------------------------------


def of_first(example: Example, result: Any) -> Any:
    """The loss of a step whose first result is passed on."""
    return (example.upstream * result[0]).sum()


def of_all(example: Example, result: Any) -> Any:
    """The loss of a step that returns one array."""
    return (example.upstream * result).sum()


def upstream_first(example: Example, result: Any) -> tuple[Any, ...]:
    """The arguments of a step's backward: the upstream gradient, then those of the forward."""
    return (example.upstream, *example.arguments)


def upstream_second(example: Example, result: Any) -> tuple[Any, ...]:
    """The same where a `Variant` comes first."""
    return (example.arguments[0], example.upstream, *example.arguments[1:])


def upstream_and_trace(example: Example, result: Any) -> tuple[Any, ...]:
    """The same, and what the forward returned beside its output."""
    return (example.upstream, *example.arguments, result[1])


# --- what declares itself ------------------------------------------------------------------------


def declared(one: Declaration) -> Derivation:
    """A model's derivation as it declares itself; it may call those of attention."""
    own = import_module(one.forward.__module__)
    partners = {f"{name}_grad": name for name in vars(own) if f"{name}_grad" in vars(own)}
    mistakes = tuple(
        breaks.change(name, wrong.why, wrong.function.rpartition(".")[2], wrong.old, wrong.new)
        for name, wrong in one.mistakes.items())
    return Derivation(
        one.name, one.title, one.forward, one.backward,
        Pairing({**ATTENTIONAL, **partners, **one.partners}, {**PAIRS, **one.pairs},
                SHARES), one.example,
        (*FOLLOW, own) if one.apart else FOLLOW, mistakes, settings=one.settings,
        sentence=one.sentence, recurrent=one.recurrent, attentive=one.attentive,
        **RETURNED[one.returns])


RETURNED: dict[str, dict[str, Any]] = {
    LOSS: {}, OUTPUT: {"loss": of_all, "given": upstream_first},
    OUTPUT_TRACE: {"loss": of_first, "given": upstream_and_trace},
}


# --- the table ----------------------------------------------------------------------------------

LANGUAGE = ("sentence", "model", "checkpoint")
TRANSLATION, LAYERED = ("sentence", "target"), ("layers", "model", "checkpoint")
SCORED = ("score", "window")

DERIVATIONS = {one.name: one for one in (
    Derivation(
        "rnn", "Recurrent language model, Algorithm 1", rnn.forward, rnn.backward,
        Pairing(MODEL, PAIRS), partial(language_example, 1), FOLLOW, breaks.RNN,
        settings=LANGUAGE, recurrent=True),
    Derivation(
        "lstm", "LSTM language model, Algorithm 2", lstm.forward, lstm.backward,
        Pairing(MODEL, PAIRS), partial(language_example, 4), FOLLOW, breaks.LSTM,
        settings=LANGUAGE, recurrent=True),
    Derivation(
        "nmt", "Encoder-decoder, Algorithms 3 and 4", nmt.forward, nmt.backward,
        Pairing(MODEL, PAIRS), partial(translation_example, False), FOLLOW, breaks.TRANSLATION,
        settings=TRANSLATION + LAYERED, sentence=PAIR, recurrent=True),
    Derivation(
        "attention", "Encoder-decoder with attention ({score}, {window}{feeding}), 4.2",
        attention.attentional_nmt_forward, attention.attentional_nmt_backward,
        Pairing(ATTENTIONAL, PAIRS, SHARES), partial(translation_example, True), FOLLOW,
        breaks.ATTENTION, settings=(*TRANSLATION, *LAYERED, *SCORED, "feeding"), sentence=PAIR,
        recurrent=True, attentive=True),
    Derivation(
        "rnnsearch", "RNNsearch, Bahdanau et al. A.2", rnnsearch.forward, rnnsearch.backward,
        Pairing(MODEL, PAIRS, SHARES), search_example, FOLLOW, breaks.SEARCH,
        settings=(*TRANSLATION, "model", "checkpoint"), sentence=PAIR, recurrent=True,
        attentive=True),
    *map(declared, DECLARED),
    Derivation(
        "attention-step", "One step of attention, {score}, {window}",
        attention_step.attend, attention_step.attend_grad,
        Pairing(PARTNERS, PAIRS), attention_step_example, FOLLOW, breaks.ATTENTION_STEP,
        of_first, upstream_second, settings=SCORED),
    Derivation(
        "gru", "One step of the gated hidden unit, Bahdanau et al. A.2.1", gru.gru, gru.gru_grad,
        Pairing(PARTNERS, PAIRS), partial(gru_example, False), FOLLOW, breaks.GRU,
        of_all, upstream_first, recurrent=True),
    Derivation(
        "gru-context", "One step of the gated hidden unit with a context, Bahdanau et al. A.2.2",
        gru.gru_context, gru.gru_context_grad,
        Pairing(PARTNERS, PAIRS), partial(gru_example, True), FOLLOW, breaks.GRU_CONTEXT,
        of_all, upstream_first, recurrent=True),
)}


def find(name: str) -> Derivation:
    """A derivation by name; `UserError`, with the nearest name, if there is none."""
    found: Derivation = nearest(DERIVATIONS, name, "derivation")
    return found
