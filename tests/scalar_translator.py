"""A whole encoder-decoder of one layer in plain Python, one sentence pair at a time.

Luong (2016): Algorithms 3 and 4 with global attention (section 4.2) and, where asked for, input
feeding (section 4.2.3), put together from the loops of `scalar`.
"""

from __future__ import annotations

from typing import NamedTuple

from scalar import (
    END,
    STEPS,
    Parameters,
    State,
    Step,
    Vector,
    add,
    attend,
    attend_backward,
    attentional,
    attentional_backward,
    look_up,
    look_up_backward,
    predict,
    predict_backward,
    sequence,
    sequence_backward,
    zeros_like,
)


class Decoded(NamedTuple):
    """What one step of the decoder computed."""

    step: Step
    c: Vector  # context
    a: Vector  # alignment weights
    h_tilde: Vector
    p: Vector  # the prediction


class Translated(NamedTuple):
    """What the forward pass computed for one pair."""

    encoded: list[Step]
    hbar: list[Vector]
    decoded: list[Decoded]


class Translator:
    """Loss and gradients of one pair; `feeding` and `unit` as in the recipe.

    The score is `general` where there is an `attention.W_a`, else `dot`.
    """

    def __init__(self, parameters: Parameters, unit: str, feeding: bool) -> None:
        self.parameters, self.unit, self.feeding = parameters, unit, feeding

    def zero_state(self) -> State:
        """Zeros, where the encoder begins."""
        H = len(self.parameters["attention.W_c"])
        return tuple([0.0] * H for _ in range(2 if self.unit == "lstm" else 1))

    def forward(self, x: list[int], y: list[int]) -> tuple[float, Translated]:
        """J of Eq. 2.52 in nats: the sum of -log p over y and the end marker; Algorithm 3."""
        p = self.parameters
        encoded = sequence(self.unit, look_up(p["encoder.W_e"], x), self.zero_state(),
                           p["encoder.0.T"], p.get("encoder.0.b"))
        hbar = [step.after[0] for step in encoded]
        state, h_tilde = encoded[-1].after, self.zero_state()[0]
        loss, decoded = 0.0, []
        for word, target in zip([END, *y], [*y, END], strict=True):
            v = look_up(p["decoder.W_e"], [word])[0]
            read = v + h_tilde if self.feeding else v
            step = STEPS[self.unit][0](read, state, p["decoder.0.T"], p.get("decoder.0.b"))
            state, h = step.after, step.after[0]
            c, a = attend(h, hbar, p.get("attention.W_a"))
            h_tilde = attentional(c, h, p["attention.W_c"])
            l_t, p_t = predict(h_tilde, target, p["output.W_hy"], p.get("output.b"))
            loss += l_t
            decoded.append(Decoded(step, c, a, h_tilde, p_t))
        return loss, Translated(encoded, hbar, decoded)

    def backward(self, x: list[int], y: list[int], made: Translated) -> Parameters:
        """The gradient of J for every parameter; Algorithm 4."""
        d = {name: zeros_like(value) for name, value in self.parameters.items()}
        dhbar = zeros_like(made.hbar)
        d_state: State = tuple(zeros_like(list(part)) for part in made.encoded[-1].after)
        d_fed = zeros_like(made.decoded[0].h_tilde)
        for t in reversed(range(len(y) + 1)):
            word, target = [END, *y][t], [*y, END][t]
            d_state, d_fed = self._step_backward(word, target, made, t, d_state, d_fed, dhbar, d)
        dxs, _ = sequence_backward(self.unit, dhbar, d_state, made.encoded,
                                   self.parameters["encoder.0.T"], d["encoder.0.T"],
                                   d.get("encoder.0.b"))
        look_up_backward(dxs, x, d["encoder.W_e"])
        return d

    def _step_backward(
        self, word: int, target: int, made: Translated, t: int, d_state: State, d_fed: Vector,
        dhbar: list[Vector], d: Parameters,
    ) -> tuple[State, Vector]:
        """One turn of the decoder's loop: the gradients of the state and of h~ at t - 1."""
        p, now = self.parameters, made.decoded[t]
        h = now.step.after[0]
        dh_tilde = predict_backward(now.p, now.h_tilde, target, p["output.W_hy"],
                                    d["output.W_hy"], d.get("output.b"))
        dc, dh = attentional_backward(add(dh_tilde, d_fed), now.h_tilde, now.c, h,
                                      p["attention.W_c"], d["attention.W_c"])
        dh_score = attend_backward(dc, now.a, h, made.hbar, p.get("attention.W_a"),
                                   dhbar, d.get("attention.W_a"))
        dh = add(add(dh, dh_score), d_state[0])
        d_read, d_state = STEPS[self.unit][1]((dh, *d_state[1:]), now.step, p["decoder.0.T"],
                                              d["decoder.0.T"], d.get("decoder.0.b"))
        E = len(p["decoder.W_e"][0])
        look_up_backward([d_read[:E]], [word], d["decoder.W_e"])
        return d_state, d_read[E:] if self.feeding else zeros_like(d_fed)
