"""The papers' errata as mistakes in the derivations: `grads mutants NAME` makes one and checks.

docs/errata.md says what the papers print and what was decided.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """In the source of `function`, `old`, which occurs exactly once, is replaced by `new`."""

    function: str  # dotted path
    old: str
    new: str
    why: str


HERE = "grads.derivations"
MISTAKES = {
    "printed sign of ds": Mistake(
        f"{HERE}.rnn.predict_grad", "p - one_hot(y, len(p))", "one_hot(y, len(p)) - p",
        "Algorithm 1 line 2, Algorithm 2 line 3: 1_y - p (erratum 1)"),
    "Algorithm 2 without dh_{t-1}": Mistake(
        f"{HERE}.lstm.lstm_grad", "T_h.T @ da", "0.0 * dh",
        "the printed algorithm ends at dT (erratum 2)"),
    "Algorithm 4 without line 15": Mistake(
        f"{HERE}.units.deep_step_grad", "dh[l - 1] + dx", "dh[l - 1]",
        "dx_t is not printed in Algorithm 2 (erratum 2)"),
    "dc not accumulated": Mistake(
        f"{HERE}.lstm.lstm_grad", "dc + tanh_prime(c) * o * dh", "tanh_prime(c) * o * dh",
        "dc_t <- without dc_t +, line 8 (erratum 3)"),
    "dc not carried": Mistake(
        f"{HERE}.lstm.lstm_grad", "dc_prev = f * dc", "dc_prev = 0.0 * dc",
        "nothing goes to c_{t-1}, line 12 (erratum 3)"),
    "g' at u": Mistake(
        f"{HERE}.lstm.lstm_grad", "g_prime(a) * du", "g_prime(g(a)) * du",
        "Eqs. 2.47-2.50 with what the forward keeps (erratum 4)"),
    "g' of a gate on h_hat": Mistake(
        f"{HERE}.lstm.g_prime", "tanh_prime(h_hat)", "sigm_prime(h_hat)",
        "u (1 - u) on all four blocks; the fourth is a tanh (erratum 4)"),
    "gate order of cuDNN": Mistake(
        f"{HERE}.lstm.lstm_grad", "[di, df, do, dh_hat]", "[di, df, dh_hat, do]",
        "i, f, h_hat, o in the backward, i, f, o, h_hat in the forward (erratum 5)"),
    "mean over words": Mistake(
        f"{HERE}.rnn.backward", "dW_hy + dW,", "dW_hy + dW / len(x),",
        "the loss is a sum, its weight gradient is divided by the words (erratum 13)"),
    "reset outside the product": Mistake(
        f"{HERE}.gru.gru_grad", "U.T @ da", "U.T @ (r * da)",
        "backward of r o (U h), PyTorch's reset gate (erratum 17)"),
    "first state without its encoder": Mistake(
        f"{HERE}.rnnsearch.encode_grad", "{1: d_first}", "{1: 0.0 * d_first}",
        "s_0 reads <-h_1 (erratum 19)"),
    "Algorithm 2 lines 14 and 15 as printed": Mistake(
        f"{HERE}.lstm.backward", "dT, db = dT + dT_t,", "dT, db = dT_t,",
        "dT <- where dT <- dT + is meant: only the first step is left (erratum 51)"),
    "dh_T not zero": Mistake(
        f"{HERE}.rnn.backward", "{len(x): np.zeros_like(h[0])}", "{len(x): np.ones_like(h[0])}",
        "Algorithm 1 adds to a dh_T that it never sets (erratum 50)"),
    "dc_T not zero": Mistake(
        f"{HERE}.lstm.backward", "{len(x): np.zeros_like(c[0])}", "{len(x): np.ones_like(c[0])}",
        "Algorithm 2 adds to a dc_T that it never sets (erratum 50)"),
    "dW_e not accumulated": Mistake(
        f"{HERE}.rnn.embed_grad", "dW_e + one_hot", "0 * dW_e + one_hot",
        "Algorithm 1 line 7 assigns, where remark (a) says that it accumulates (erratum 51)"),
}  # fmt: skip
