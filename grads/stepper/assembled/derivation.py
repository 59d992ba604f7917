"""The declarations of the assembled models for the tracer: which backward belongs to which
forward."""

from __future__ import annotations

from grads.derivations import fusion
from grads.derivations.examples import Example
from grads.stepper.assembled import decoders, encoders, inputs, models, reading, units
from grads.stepper.tracing.derivations import FOLLOW, PAIRS, PARTNERS
from grads.stepper.tracing.pairing import Pairing
from grads.stepper.tracing.run import Derivation

MODULES = (fusion, units, inputs, encoders, reading, decoders, models)
PARTNERS_HERE = {f"{name}_grad": name for module in MODULES for name in vars(module)
                 if f"{name}_grad" in vars(module)}
WHOLES = {"translator_backward": "translator_forward", "language_backward": "language_forward"}
PAIRS_HERE = {"reading_step_grad.dv_unit": "v in z", "reading_step_grad.dv_align": "v in q",
              "the_last_grad.dh_context": "h in c",
              **{f"{name}.gradients": "parameters" for name in WHOLES}}
SHARES_HERE = {
    "reading_step_grad.dc_unit": "what the unit sends to c_i, added in dc below",
    "reading_step_grad.ds_align": "zero: s_{i-1} has no part in a context that stays",
    **{f"{name}.d_score": "a context that stays has no alignment model"
       for name in ("reading_step_grad", "decode_reading_grad", "decode_fused_grad")},
}
PAIRING = Pairing({**PARTNERS, **PARTNERS_HERE, **WHOLES}, {**PAIRS, **PAIRS_HERE}, SHARES_HERE)


TRANSLATOR, LANGUAGE_MODEL = "translator", "language-model"


def translator(title: str, example: Example) -> Derivation:
    """A translator, run on an example."""
    return Derivation(TRANSLATOR, title, models.translator_forward, models.translator_backward,
                      PAIRING, lambda request: example, (*FOLLOW, *MODULES), recurrent=True)


def language_model(title: str, example: Example) -> Derivation:
    """A language model, run on an example."""
    return Derivation(LANGUAGE_MODEL, title, models.language_forward, models.language_backward,
                      PAIRING, lambda request: example, (*FOLLOW, *MODULES), recurrent=True)
