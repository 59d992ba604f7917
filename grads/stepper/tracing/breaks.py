"""Wrong backward passes as examples: each is one change of a derivation's source."""

from __future__ import annotations

from typing import NamedTuple

from grads.stepper.tracing.program import Edits


class Break(NamedTuple):
    """One mistake: what it is called, what it does, the change of the source."""

    name: str
    explanation: str
    edits: Edits


def change(name: str, explanation: str, function: str, old: str, new: str) -> Break:
    """A mistake in one place."""
    return Break(name, explanation, {function: ((old, new),)})


PRINTED_SIGN = change(
    "sign of ds as printed",
    "Algorithm 1 line 2 and Algorithm 2 line 3 print 1_y - p (erratum 1): every gradient turns "
    "out with its sign reversed.",
    "predict_grad", "p - one_hot(y, len(p))", "one_hot(y, len(p)) - p")
OVERWRITTEN_VERTICAL = change(
    "vertical gradient overwrites the recurrent one",
    "dh_t is what reaches h_t from the loss at t only; what came from t + 1 is lost.",
    "backward", "dh[t] = dh[t] + d_vertical", "dh[t] = d_vertical")
ONE_EMBEDDING = change(
    "one word only",
    "dW_e holds the term of the last iteration, instead of the sum over all words.",
    "embed_grad", "dW_e + one_hot", "0 * dW_e + one_hot")

UNIT = "lstm_grad"
FORGOTTEN_DC = change(
    "dc not carried",
    "what c_{t+1} sends back is forgotten in line 8: long-range gradients vanish.",
    UNIT, "dc = dc + tanh_prime(c)", "dc = tanh_prime(c)")
NO_DH_PREV = change(
    "dropped recurrent term",
    "Algorithm 2 as printed does not compute dh_{t-1} (2.48; erratum 2): time steps before t get "
    "no gradient through h.",
    UNIT, "dh_prev = T_h.T @ da", "dh_prev = 0 * (T_h.T @ da)")
WRONG_GATE = change(
    "forget gate for input gate",
    "line 11 with f_t in the place of i_t: the memory's candidate gets a wrong gradient.",
    UNIT, "dh_hat = i * dc", "dh_hat = f * dc")
G_PRIME = change(
    "g' at the activation",
    "g'(u_t) for g'(T_lstm z_t): Eqs. 2.47-2.50 read with what the forward keeps (erratum 4).",
    UNIT, "g_prime(a) * du", "g_prime(np.vstack([i, f, o, h_hat])) * du")

RNN = (
    PRINTED_SIGN,
    change("dropped recurrent term", "line 8 left out: nothing flows back to time t - 1.",
           "rnn_grad", "dh_prev = dz[len(x) :]", "dh_prev = 0 * dz[len(x) :]"),
    change("transposed weight", "line 8 with W_hh in the place of its transpose.",
           "rnn_grad", "dh_prev = dz[len(x) :]", "dh_prev = T[:, len(x) :] @ da"),
    OVERWRITTEN_VERTICAL,
    change("last time step only", "dT <- where dT <- dT + is meant.",
           "backward", "dT, db = dT + dT_t,", "dT, db = dT_t,"),
    ONE_EMBEDDING,
)
LSTM = (
    PRINTED_SIGN,
    FORGOTTEN_DC,
    NO_DH_PREV,
    WRONG_GATE,
    G_PRIME,
    OVERWRITTEN_VERTICAL,
    change("dT as printed", "Algorithm 2 lines 14 and 15 print <- where the sum over time is "
           "meant: only the first time step is left.",
           "backward", "dT, db = dT + dT_t,", "dT, db = dT_t,"),
    ONE_EMBEDDING,
)
TRANSLATION = (
    PRINTED_SIGN,
    FORGOTTEN_DC,
    NO_DH_PREV,
    change("without line 15", "dx of a layer is not added to the layer below: lower layers and "
           "embeddings get no gradient from above.",
           "multi_layer_lstm_grad", "dh[l - 1] + dx", "dh[l - 1] + 0 * dx"),
    change("encoder one step early", "line 4 at t = m_x + 1: the decoder's first word goes to the "
           "encoder's gradients.", "backward", "if t == m_x:", "if t == m_x + 1:"),
    ONE_EMBEDDING,
)
ATTENTION = (
    PRINTED_SIGN,
    FORGOTTEN_DC,
    change("input feeding forgotten", "h~_t gets its gradient from the loss at t only, not from "
           "the input of time t + 1.", "decoder_grad", "dh_tilde + P.T @ d_fed",
           "dh_tilde + 0 * (P.T @ d_fed)"),
    change("softmax without p p^T", "the second term of the softmax's Jacobian is left out.",
           "softmax_grad", "p * dp - p * (p.T @ dp)", "p * dp"),
    change("score's weight transposed", "W_a in the place of W_a^T for dhbar_s: visible with the "
           "score general only.",
           "general_score_grad", "dh_bar = W_a.T @ dk", "dh_bar = W_a @ dk"),
    change("source states from the other end", "dhbar_s is taken from position m_x + 1 - s.",
           "encoder_grad", "dh_bar[:, [s - 1]]", "dh_bar[:, [len(x) - s]]"),
    ONE_EMBEDDING,
)
SEARCH = (
    PRINTED_SIGN,
    change("alignment model forgotten", "s_{i-1} gets no gradient through the alignment model.",
           "backward", "+ ds_unit + ds_align", "+ ds_unit"),
    change("context read once", "c_i gets its gradient from the output only, not from the unit.",
           "backward", "dc_deep + dc_unit", "dc_deep"),
    change("maxout to both", "both of a pair get the gradient, not the larger one alone.",
           "maxout_grad", "np.where(first.real >= second.real, 0, dt)",
           "np.where(first.real >= second.real, dt, dt)"),
    change("reset gate outside", "m = r o h_{i-1} is differentiated as if r stood outside the "
           "product.", "gru_grad", "dm = U.T @ da", "dm = U.T @ (r * da)"),
    ONE_EMBEDDING,
)
ATTENTION_STEP = (
    change("softmax without p p^T", "the second term of the softmax's Jacobian is left out.",
           "softmax_grad", "p * dp - p * (p.T @ dp)", "p * dp"),
    change("joined state forgotten", "h_t gets its gradient through a_t only, not through "
           "[c_t; h_t].", "attend_grad", "dh_joined + dh_align", "dh_align"),
    change("tanh' at the output", "tanh'(h~_t) for tanh'(W_c [c_t; h_t]).",
           "attend_grad", "tanh_prime(v)", "tanh_prime(np.tanh(v))"),
)
GRU = (
    change("update gates swapped", "z and 1 - z change places, as between papers (erratum 17).",
           "gru_grad", "dh_tilde = z * dh", "dh_tilde = (1 - z) * dh"),
    change("reset gate outside", "m = r o h_{i-1} is differentiated as if r stood outside the "
           "product.", "gru_grad", "dm = U.T @ da", "dm = U.T @ (r * da)"),
    change("state kept is forgotten", "(1 - z) o h_{i-1} left out of dh_{i-1}.",
           "gru_grad", "((1 - z) * dh ", "(0 * dh "),
)
GRU_CONTEXT = (
    change("update gates swapped", "z and 1 - z change places, as between papers (erratum 17).",
           "gru_context_grad", "ds_tilde = z * ds", "ds_tilde = (1 - z) * ds"),
    change("context read once", "c_i gets its gradient through the candidate only, not through the "
           "gates.", "gru_context_grad", "dc = C.T @ da + C_z.T @ da_z + C_r.T @ da_r",
           "dc = C.T @ da + 0 * (C_z.T @ da_z + C_r.T @ da_r)"),
    change("state kept is forgotten", "(1 - z) o s_{i-1} left out of ds_{i-1}.",
           "gru_context_grad", "((1 - z) * ds ", "(0 * ds "),
)
