"""Wrong answers to the exercises, by lesson and exercise, each with the hint that it gets.

Where an exercise asks for a function the wrong answers are functions. Where it asks for a value
they are values, or functions that are true of wrong values. The tests try them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

Mistakes = dict[int, list[tuple[str, Any]]]


def slope(x: Any, h: Any, T: Any) -> Any:
    """tanh' of a recurrent unit's pre-activation."""
    return 1 - np.tanh(T @ np.vstack([x, h])) ** 2


def softmax(e: Any) -> Any:
    """The softmax over all entries."""
    return np.exp(e - e.max()) / np.exp(e - e.max()).sum()


def mixing(new: str, old: str) -> list[tuple[str, Any]]:
    """Wrong gradients of h = z new + (1 - z) old: of z, of the new value and of the old one."""
    return [
        (f"z is used twice: {old} is multiplied by 1 - z, so dz has a second term.",
         lambda dh, z, n, o: (n * dh, z * dh, (1 - z) * dh)),
        ("the rate of 1 - z is -1: one term of dz has a minus.",
         lambda dh, z, n, o: ((n + o) * dh, z * dh, (1 - z) * dh)),
        (f"{new} is multiplied by z, and {old} by 1 - z. These are exchanged.",
         lambda dh, z, n, o: ((n - o) * dh, (1 - z) * dh, z * dh)),
        ("these are rates. The chain rule multiplies each by dh.",
         lambda dh, z, n, o: (n - o, z, 1 - z)),
        ("dz alone is multiplied by dh here.", lambda dh, z, n, o: ((n - o) * dh, z, 1 - z)),
        (f"{old} is multiplied by 1 - z, so d{old} is (1 - z) times dh.",
         lambda dh, z, n, o: ((n - o) * dh, z * dh, -z * dh)),
        (f"{old} passes through 1 - z.", lambda dh, z, n, o: ((n - o) * dh, z * dh, dh))]


CHAIN: Mistakes = {
    1: [("that is the rate of tanh, 1 - h^2. The sigmoid has another.", lambda s: 1 - s**2),
        ("this misses a factor: where s is close to zero the sigmoid is flat, too.",
         lambda s: 1 - s),
        ("this misses a factor: where s is close to one the sigmoid is flat, too.", lambda s: s),
        ("you get s, the value of the sigmoid, and no longer a.",
         lambda s: np.exp(-s) / (1 + np.exp(-s)) ** 2),
        ("this is the rate of a by s, the inverse of what is asked.", lambda s: 1 / (s * (1 - s))),
        ("the sign: the sigmoid rises everywhere.", lambda s: -s * (1 - s))],
    2: [("w is read twice: by the first line, and by the last.", (1, 2, 1)),
        ("a is read twice: by tanh, and by the product.", (1, 1, 2)),
        ("each line reads something: count the uses, not the lines.", (1, 1, 1)),
        ("h is read once: by the last line.", (2, 2, 2)),
        ("w is not read by the tanh itself: count direct uses only.", (1, 2, 3))],
    3: mixing("n", "o"),
}


RNN: Mistakes = {
    1: [("W_hh is square, so a wrong product has the right shape, too. Going back through a "
         "matrix multiplies by its transpose (2.13).",
         lambda dh, x, h, T: T[:, len(x):] @ (slope(x, h, T) * dh)),
        ("h_t is the tanh of a pre-activation: its slope is a factor (2.11).",
         lambda dh, x, h, T: T[:, len(x):].T @ dh),
        ("1 - h^2 is the slope for h_t, the result of tanh. You get h_{t-1}.",
         lambda dh, x, h, T: T[:, len(x):].T @ ((1 - h**2) * dh)),
        ("this is tanh itself. Its slope is 1 - tanh(a)^2.",
         lambda dh, x, h, T: T[:, len(x):].T @ (np.tanh(T @ np.vstack([x, h])) * dh)),
        ("a square is missing: the slope of tanh at a is 1 - tanh(a)^2.",
         lambda dh, x, h, T: T[:, len(x):].T @ ((1 - np.tanh(T @ np.vstack([x, h]))) * dh)),
        ("z_t is [x_t; h_{t-1}]: x_t comes first.",
         lambda dh, x, h, T: T[:, len(x):].T @ (slope(h, x, T) * dh)),
        ("this is da_t. From a_t it goes back to h_{t-1} through a matrix.",
         lambda dh, x, h, T: slope(x, h, T) * dh),
        ("and dh? The chain rule multiplies by it.",
         lambda dh, x, h, T: T[:, len(x):].T @ slope(x, h, T)),
        ("the slope of tanh at a is 1 - tanh(a)^2, not 1 - a^2.",
         lambda dh, x, h, T: T[:, len(x):].T @ ((1 - (T @ np.vstack([x, h])) ** 2) * dh)),
        ("tanh is taken twice: tanh_prime takes the pre-activation a = T z_t, and not h_t.",
         lambda dh, x, h, T: T[:, len(x):].T @ (
             (1 - np.tanh(np.tanh(T @ np.vstack([x, h]))) ** 2) * dh)),
        ("the slope of tanh at a is 1 - tanh(a)^2, and a is T z_t with z_t = [x_t; h_{t-1}], not "
         "h_{t-1}.",
         lambda dh, x, h, T: T[:, len(x):].T @ ((1 - np.tanh(h) ** 2) * dh)),
        ("the slope belongs to the output of the matrix, so it multiplies dh before the matrix "
         "does.", lambda dh, x, h, T: slope(x, h, T) * (T[:, len(x):].T @ dh)),
        ("T is [W_xh W_hh]. You need its columns for h_{t-1} only.",
         lambda dh, x, h, T: T.T @ (slope(x, h, T) * dh)),
        ("these are the first columns of T: they belong to x_t, and give dx_t (2.27).",
         lambda dh, x, h, T: T[:, :len(x)].T @ (slope(x, h, T) * dh)),
        ("these are the first columns of T: those for h_{t-1} are the last.",
         lambda dh, x, h, T: T[:, :len(h)].T @ (slope(x, h, T) * dh))],
    2: [("each term is an outer product with h_{t-1} (line 6). What is h_0?", 7),
        ("a word is predicted at every step, so the last step has a term, too.", 5)],
    3: [("this is the gradient of one use. The matrix is also used for the output.",
         lambda d: d["W_e"]),
        ("this is the gradient of one use. The matrix is also used for the input.",
         lambda d: d["W_hy"]),
        ("no mean: each use adds its own effect on the loss.",
         lambda d: (d["W_e"] + d["W_hy"]) / 2)],
}


LSTM: Mistakes = {
    1: [("this forgets the part of dc_t that comes from t+1. c_t is read by h_t and by c_{t+1}, so "
         "its gradient is a sum of two.",
         lambda dh, dc, o, f, c: ((1 - np.tanh(c) ** 2) * o * dh,
                                  f * (1 - np.tanh(c) ** 2) * o * dh)),
        ("this forgets the part of dc_t that comes from t+1, and dc_{t-1} is not dc_t: c_{t-1} was "
         "multiplied by f_t (2.44).",
         lambda dh, dc, o, f, c: ((1 - np.tanh(c) ** 2) * o * dh,) * 2),
        ("this forgets the part of dc_t that comes from t+1. And dc_{t-1} is f_t times the sum.",
         lambda dh, dc, o, f, c: ((1 - np.tanh(c) ** 2) * o * dh, f * dc)),
        ("the slope of tanh at c is 1 - tanh(c)^2, not 1 - c^2.",
         lambda dh, dc, o, f, c: (dc + (1 - c**2) * o * dh, f * (dc + (1 - c**2) * o * dh))),
        ("this is tanh itself. Its slope is 1 - tanh(c)^2.",
         lambda dh, dc, o, f, c: (dc + np.tanh(c) * o * dh, f * (dc + np.tanh(c) * o * dh))),
        ("tanh is taken twice: tanh_prime takes c_t, and not tanh(c_t).",
         lambda dh, dc, o, f, c: (dc + (1 - np.tanh(np.tanh(c)) ** 2) * o * dh,
                                  f * (dc + (1 - np.tanh(np.tanh(c)) ** 2) * o * dh))),
        ("both parts count with a plus: every use adds a term.",
         lambda dh, dc, o, f, c: (dc - (1 - np.tanh(c) ** 2) * o * dh,
                                  f * (dc - (1 - np.tanh(c) ** 2) * o * dh))),
        ("f_t multiplies the whole sum. Mind the parentheses.",
         lambda dh, dc, o, f, c: (dc + (1 - np.tanh(c) ** 2) * o * dh,
                                  f * dc + (1 - np.tanh(c) ** 2) * o * dh)),
        ("c_{t-1} was multiplied by f_t itself (2.36), not by 1 - f_t.",
         lambda dh, dc, o, f, c: (dc + (1 - np.tanh(c) ** 2) * o * dh,
                                  (1 - f) * (dc + (1 - np.tanh(c) ** 2) * o * dh))),
        ("this forgets dh_t. c_t is read by h_t, too (2.37), so dc_t is a sum of two.",
         lambda dh, dc, o, f, c: (dc, f * dc)),
        ("line 12 reads the dc_t that line 8 has updated, not the one from t+1.",
         lambda dh, dc, o, f, c: (dc + (1 - np.tanh(c) ** 2) * o * dh, f * dc)),
        ("h_t is o_t times tanh(c_t): the slope of that tanh is missing.",
         lambda dh, dc, o, f, c: (dc + o * dh, f * (dc + o * dh))),
        ("h_t is o_t times tanh(c_t) (2.37): how much of dh_t gets to tanh(c_t)?",
         lambda dh, dc, o, f, c: (dc + (1 - np.tanh(c) ** 2) * dh,
                                  f * (dc + (1 - np.tanh(c) ** 2) * dh))),
        ("dc_{t-1} passes through the forget gate (2.44).",
         lambda dh, dc, o, f, c: (dc + (1 - np.tanh(c) ** 2) * o * dh,) * 2)],
    2: [("this is f itself. Which bias gives it? f = sigm(b_f).", lambda b: 0.99 <= b <= 0.995),
        ("with b_f = 0 the gate is 1/2, and half is left after one step.", lambda b: b == 0),
        ("the sign is reversed: f has to be close to one, so b_f is positive.",
         lambda b: b < 0)],
    3: [("f occurs twice. h_hat is multiplied by 1 - f, so that df loses what h_hat adds.",
         lambda dc, cache: (cache[1] * dc, cache[0] * dc, (1 - cache[0]) * dc)),
        ("these are rates. The chain rule multiplies each by dc.",
         lambda dc, cache: (cache[1] - cache[2], cache[0], 1 - cache[0])),
        ("df is the gradient of the gate itself: its sigmoid comes later.",
         lambda dc, cache: (cache[0] * (1 - cache[0]) * (cache[1] - cache[2]) * dc,
                            cache[0] * dc, (1 - cache[0]) * dc)),
        ("h_hat is multiplied by 1 - f, so dh_hat is (1 - f) times dc.",
         lambda dc, cache: ((cache[1] - cache[2]) * dc, cache[0] * dc, -cache[0] * dc)),
        ("the sign of one term of df: the derivative of 1 - f is -1.",
         lambda dc, cache: ((cache[1] + cache[2]) * dc, cache[0] * dc, (1 - cache[0]) * dc)),
        ("h_hat is multiplied by 1 - f, and c_{t-1} by f. These are exchanged.",
         lambda dc, cache: ((cache[1] - cache[2]) * dc, (1 - cache[0]) * dc, cache[0] * dc))],
}

CHECKING: Mistakes = {
    1: [("this is the best step of a forward difference, whose truncation error is h. Here it is "
         "h^2 / 6.", lambda h: 3e-9 < h <= 1e-7),
        ("this looks like an exponent. The step is a small number, such as 10.0 ** -3.",
         lambda h: h <= -1),
        ("so small a step is all rounding: the two values of sin agree in most of their digits.",
         lambda h: h <= 3e-9),
        ("so large a step is all truncation: its error is h^2 / 6.", lambda h: h >= 1e-4)],
    2: [("its transpose is another matrix. Which matrices equal their transposes?",
         lambda W: np.shape(W) == (4, 4) and not np.allclose(W, np.transpose(W))),
        ("this is a diagonal matrix. Take any other that equals its transpose.",
         lambda W: np.shape(W) == (4, 4) and np.array_equal(W, np.diag(np.diag(W))))],
    3: [("the imaginary part is lost: np.abs, np.linalg.norm, .conj(), .real and float() drop it. "
         "The square of a real number needs none of them.",
         lambda v: np.sqrt((np.abs(v) ** 2).sum())),
        ("the length is the root of this.", lambda v: (v * v).sum())],
}


def endless(advance: Callable[..., Any], state: Any, m_x: int, alpha: float) -> list[int]:
    """Algorithm 5 without its line 8."""
    words = [1]
    while len(words) <= alpha * m_x:
        p, state = advance(state, words[-1])
        words.append(int(p.argmax()))
    return words[1:]


def searched(
    stop: Callable[..., Any] = lambda m_x, alpha: alpha * m_x, first: int | None = None,
    moves: bool = True, kept: slice = slice(1, None), closed: bool = False,
) -> Callable[..., list[int]]:
    """Algorithm 5 with a mistake: another limit, always the `first` word, a state that does not
    move, other words kept, or the end marker returned (closed)."""
    def search(advance: Callable[..., Any], state: Any, m_x: int, alpha: float) -> list[int]:
        words = [1]
        while len(words) <= stop(m_x, alpha):
            p, new_state = advance(state, words[-1] if first is None else first)
            state = new_state if moves else state
            word = int(p.argmax())
            words += [word] * (word != 1 or closed)
            if word == 1:
                break
        return words[kept]
    return search


TRANSLATOR: Mistakes = {
    1: [("the decoder does not read the last _: nothing is predicted after it.",
         lambda y: ([*y, 1], [*y, 1])),
        ("what is predicted is what is read, one step later. Here it is the same.",
         lambda y: ([1, *y], [1, *y])),
        ("where are the two _? s = [x, _, y, _].", lambda y: (y, y)),
        ("these are exchanged: the decoder reads first, and predicts what follows.",
         lambda y: ([*y, 1], [1, *y]))],
    2: [("that is what greedy search takes. Multiply the two probabilities of each pair.",
         ("das", "Haus")),
        ("the first word is right; the second has to be the likelier after it.", ("ein", "Heim"))],
    3: [("the end marker (1) has to end the loop (line 8).", endless),
        ("each step has to read the word that the step before predicted.", searched(first=1)),
        ("each step has to start from the state that the step before returned.",
         searched(moves=False)),
        ("the first 1 is only there to be read. Leave it out of the result.",
         searched(kept=slice(None))),
        ("the 1 that ends the loop is no word of the translation.", searched(closed=True)),
        ("the limit is alpha m_x, not m_x.", searched(lambda m_x, alpha: m_x)),
        ("the limit is missing: a decoder may never say 1.", searched(lambda m_x, alpha: 1000)),
        ("the loop stops too early: it runs while t <= alpha m_x, and t begins at 1.",
         searched(lambda m_x, alpha: alpha * m_x - 1))],
}
ATTENTION: Mistakes = {
    1: [("padding takes part in this softmax. Only the first n scores belong to words.",
         lambda e, n: softmax(e)),
        ("the result has S rows: zeros stand where the padding is.", lambda e, n: softmax(e[:n])),
        ("large scores overflow. Subtract the largest score of a word first.",
         lambda e, n: np.exp(e) * (np.arange(len(e))[:, None] < n) / np.exp(e[:n]).sum()),
        ("a score of zero is no small score: exp(0) is 1. Which score has the weight zero?",
         lambda e, n: softmax(np.where(np.arange(len(e))[:, None] < n, e, 0.0))),
        ("the weights of the words no longer sum to one: mask the scores before the softmax.",
         lambda e, n: softmax(e) * (np.arange(len(e))[:, None] < n)),
        ("positions count from 0, so n itself is padding.",
         lambda e, n: softmax(np.where(np.arange(len(e))[:, None] <= n, e, -np.inf))),
        ("divide by the sum: the weights must sum to one.",
         lambda e, n: np.where(np.arange(len(e))[:, None] < n, np.exp(e - e[:n].max()), 0.0))],
    2: [("every score changes every weight, through the sum in the denominator. One term is "
         "missing.", lambda a, da: a * da),
        ("a (1 - a) is the diagonal of the Jacobian. The other entries are -a_s a_t.",
         lambda a, da: a * (1 - a) * da),
        ("one factor a is missing: the weight of a word that has none cannot change.",
         lambda a, da: da - (a * da).sum()),
        ("the second term has a minus: raising one score lowers the other weights.",
         lambda a, da: a * (da + (a * da).sum())),
        ("the second term is a weighted mean of da: its weights are a.",
         lambda a, da: a * (da - da.mean())),
        ("the second term is a weighted mean of da: its weights are a.",
         lambda a, da: a * (da - da.sum()))],
    3: [("this is the path through the context only. The scores read h_bar, too.",
         lambda dc, de, h, a, W_a: dc @ a.T),
        ("this is the path through the scores only. The context reads h_bar, too.",
         lambda dc, de, h, a, W_a: (W_a.T @ h) @ de.T),
        ("the two paths add up.", lambda dc, de, h, a, W_a: dc @ a.T - (W_a.T @ h) @ de.T)],
}
KERNELS: Mistakes = {
    1: [("at 0 sigm has slope 1/4, and this one 1/2.", lambda z: 0.5 * np.tanh(z) + 0.5),
        ("tanh runs from -1 to 1, sigm from 0 to 1.", lambda z: np.tanh(0.5 * z))],
    2: [("this is the last time step only.", lambda da, x: da[-1].T @ x[-1]),
        ("this is the transpose: the rows belong to da.",
         lambda da, x: x.reshape(-1, x.shape[2]).T @ da.reshape(-1, da.shape[2])),
        ("reshape does not transpose: reshape to (T B, 4H) first, then take the transpose.",
         lambda da, x: da.reshape(da.shape[2], -1) @ x.reshape(-1, x.shape[2])),
        ("a sum, no mean.", lambda da, x: (da.reshape(-1, da.shape[2]).T
                                           @ x.reshape(-1, x.shape[2])) / 15)],
    3: [("a multiplication and an addition are two operations.",
         lambda T, B, E, H: T * B * 4 * H * (E + H)),
        ("there are four gates: T_lstm has 4H rows.", lambda T, B, E, H: 2 * T * B * H * (E + H)),
        ("h_{t-1} is multiplied, too: z has E + H entries.",
         lambda T, B, E, H: 2 * T * B * 4 * H * E),
        ("this is the forward pass and the backward pass. Count the forward pass alone.",
         lambda T, B, E, H: 6 * T * B * 4 * H * (E + H))],
}
TRANSFORMER: Mistakes = {
    1: [("the diagonal has to be seen, or the first word sees nothing at all.",
         lambda T: np.arange(T) >= np.arange(T)[:, None]),
        ("this hides what came before. A word must not see what comes after it.",
         lambda T: np.arange(T) < np.arange(T)[:, None]),
        ("this shows what may be seen. True means hidden.",
         lambda T: np.arange(T) <= np.arange(T)[:, None]),
        ("the words before are hidden, too. They may be seen.", lambda T: ~np.eye(T, dtype=bool)),
        ("nothing is hidden here.", lambda T: np.zeros((T, T), bool))],
    2: [("both means are missing: x's own mean and s depend on x, too.",
         lambda x_hat, s, d: d / s),
        ("s depends on x, too: subtract x_hat times the mean of x_hat * dx_hat.",
         lambda x_hat, s, d: (d - d.mean()) / s),
        ("the mean of x depends on x, too: subtract the mean of dx_hat.",
         lambda x_hat, s, d: (d - x_hat * (x_hat * d).mean()) / s),
        ("J has a factor 1/s.", lambda x_hat, s, d: d - d.mean() - x_hat * (x_hat * d).mean()),
        ("1/s is a factor of all three terms. Mind the parentheses.",
         lambda x_hat, s, d: d / s - d.mean() - x_hat * (x_hat * d).mean()),
        ("these are sums. J has a factor 1/d, which makes them means.",
         lambda x_hat, s, d: (d - d.sum() - x_hat * (x_hat * d).sum()) / s),
        ("the last term is a column: the mean is multiplied by x_hat.",
         lambda x_hat, s, d: (d - d.mean() - (x_hat * d).mean()) / s),
        ("both terms are subtracted.",
         lambda x_hat, s, d: (d - d.mean() + x_hat * (x_hat * d).mean()) / s)],
    3: [("and the root? E is divided by it, so both gradients are.",
         lambda dE, Q, K: (dE @ K, dE.T @ Q)),
        ("dK is divided by the root, too.", lambda dE, Q, K: (dE @ K / 2, dE.T @ Q)),
        ("dQ is divided by the root, too.", lambda dE, Q, K: (dE @ K, dE.T @ Q / 2)),
        ("divide by the root of d_k, not by d_k.", lambda dE, Q, K: (dE @ K / 4, dE.T @ Q / 4)),
        ("d_k is the number of columns of Q and K, not of rows.",
         lambda dE, Q, K: (dE @ K / len(Q)**0.5, dE.T @ Q / len(Q)**0.5)),
        ("these are exchanged: dQ has the shape of Q.",
         lambda dE, Q, K: (dE.T @ Q / 2, dE @ K / 2))],
}
GRU: Mistakes = {
    1: [*mixing("h_tilde", "h_prev"),
        ("this is PyTorch's unit, where z weighs the old state. Here it weighs the new value.",
         lambda dh, z, new, old: ((old - new) * dh, (1 - z) * dh, z * dh)),
        ("dh_tilde is the gradient of the new value itself: its tanh comes later.",
         lambda dh, z, new, old: ((new - old) * dh, (1 - new**2) * z * dh, (1 - z) * dh)),
        ("dz is the gradient of the gate itself: its sigmoid comes later.",
         lambda dh, z, new, old: (z * (1 - z) * (new - old) * dh, z * dh, (1 - z) * dh))],
    2: [("the sign is reversed: here z has to be close to zero, so b_z is negative.",
         lambda b: b > 1),
        ("this is z itself. Which bias gives it? z = sigm(b_z).", lambda b: 0 < b < 0.01),
        ("this is 1 - z. Which bias gives it? z = sigm(b_z).", lambda b: 0.99 < b < 1),
        ("with b_z = 0 the gate is 1/2, and half is left after one step.", lambda b: b == 0)],
    3: [("this is the unit with the gate inside the product. Here U multiplies h_prev alone.",
         lambda dm, cache: (cache[2] * (cache[1].T @ dm), dm @ (cache[0] * cache[2]).T,
                            cache[0] * (cache[1].T @ dm))),
        ("dU and dh_prev go through r first: put dv = r o dm.",
         lambda dm, cache: ((cache[1] @ cache[2]) * dm, dm @ cache[2].T, cache[1].T @ dm)),
        ("U is square, so a wrong product has the right shape, too. Going back through a matrix "
         "multiplies by its transpose.",
         lambda dm, cache: ((cache[1] @ cache[2]) * dm, (cache[0] * dm) @ cache[2].T,
                            cache[1] @ (cache[0] * dm))),
        ("dr is the other factor, U h_prev, times dm.",
         lambda dm, cache: (cache[2] * dm, (cache[0] * dm) @ cache[2].T,
                            cache[1].T @ (cache[0] * dm))),
        ("dr is the gradient of the gate itself: its sigmoid comes later.",
         lambda dm, cache: (cache[0] * (1 - cache[0]) * (cache[1] @ cache[2]) * dm,
                            (cache[0] * dm) @ cache[2].T, cache[1].T @ (cache[0] * dm))),
        ("dU is an outer product: its rows belong to dv, its columns to h_prev.",
         lambda dm, cache: ((cache[1] @ cache[2]) * dm, cache[2] @ (cache[0] * dm).T,
                            cache[1].T @ (cache[0] * dm)))],
}


def best_places(total: Any, K: int) -> tuple[Any, Any]:
    """Rows and columns of the K largest entries."""
    places = np.argsort(-total, axis=None)[:K]
    return places // total.shape[1], places % total.shape[1]


BEAM: Mistakes = {
    1: [("the scores so far are missing: a candidate's score is the sum of both.",
         lambda so_far, log_p: best_places(log_p, len(so_far))),
        ("this extends each beginning by its best word. All candidates compete with each other.",
         lambda so_far, log_p: (np.arange(len(so_far)), log_p.argmax(axis=1))),
        ("these are the worst: np.argsort sorts upward.",
         lambda so_far, log_p: best_places(-(so_far[:, None] + log_p), len(so_far))),
        ("rows and words are exchanged: the row is place // V.",
         lambda so_far, log_p: best_places(so_far[:, None] + log_p, len(so_far))[::-1]),
        ("the order: the best candidate comes first.",
         lambda so_far, log_p: tuple(
             places[::-1] for places in best_places(so_far[:, None] + log_p, len(so_far)))),
        ("these are pairs. Return all rows, then all words.",
         lambda so_far, log_p: list(zip(
             *best_places(so_far[:, None] + log_p, len(so_far)), strict=True))),
        ("these are places in the flattened table: row = place // V, word = place % V.",
         lambda so_far, log_p: np.argsort(-(so_far[:, None] + log_p), axis=None)[:len(so_far)])],
    2: [("the first step has one beginning only.", 20 * 10 * 50_000),
        ("this is greedy search: a beam of 10 has ten beginnings.", 20 * 50_000),
        ("the first step is missing.", 19 * 10 * 50_000)],
    3: [("a finished sentence may still be overtaken by a better beginning.",
         lambda finished, open_: bool(finished)),
        ("where nothing is finished a search must go on, unless nothing is left.",
         lambda finished, open_: not open_ or max(finished, default=0) >= max(open_)),
        ("compare with the best beginning, not with the worst.",
         lambda finished, open_: not open_ or (bool(finished) and max(finished) >= min(open_))),
        ("with no beginning left the search is over.",
         lambda finished, open_: bool(finished and open_) and max(finished) >= max(open_)),
        ("compare the best finished sentence: max(finished).",
         lambda finished, open_: not open_ or (bool(finished) and min(finished) >= max(open_)))],
}


def once(symbols: Any, merges: Any) -> Any:
    """Merges in which only the first occurrence is made one."""
    for left, right in merges:
        for i in range(len(symbols) - 1):
            if (symbols[i], symbols[i + 1]) == (left, right):
                symbols = [*symbols[:i], left + right, *symbols[i + 2:]]
                break
    return symbols


def replaced(symbols: Any, merges: Any, edge: str = "") -> Any:
    """Merges made in the text of the symbols. Without an edge a pair may be a part of symbols."""
    text = " ".join(symbols)
    for left, right in merges:
        text = re.sub(f"{edge}{left} {right}{edge}", left + right, text)
    return text.split()


def overlapping(symbols: Any, merges: Any) -> Any:
    """Merges that take a symbol twice."""
    for left, right in merges:
        pairs = [(symbols[i], symbols[i + 1]) == (left, right) for i in range(len(symbols) - 1)]
        symbols = [left + right if pair else symbol
                   for symbol, pair in zip(symbols, [*pairs, False], strict=True)]
    return symbols


SUBWORDS: Mistakes = {
    1: [("a pair may occur several times in a word: make each of them one.", once),
        ("the second symbol of a pair is gone once it is merged.", overlapping),
        ("the merges count in the order in which they were learned.",
         lambda symbols, merges: replaced(symbols, merges[::-1], edge=r"\b")),
        ("symbols count as a whole: a and bc are not the pair a, b.", replaced),
        ("nothing is merged here.", lambda symbols, merges: symbols)],
    2: [("the last letter of a word carries </w>: t and t</w> are different symbols.",
         {("e", "s"), ("s", "t")}),
        ("there is another pair in the same two words.", {("e", "s")}),
        ("there is another pair in the same two words.", {("s", "t</w>")}),
        ("lo is in low and in lower: 5 + 2.", {("l", "o")})],
    3: [("a name that only one of them has is missing.",
         lambda words, letters, alpha: {name: words[name] + alpha * letters[name]
                                        for name in words if name in letters}),
        ("and alpha?", lambda words, letters, alpha: {
            name: words.get(name, 0.0) + letters.get(name, 0.0) for name in {*words, *letters}}),
        ("alpha is a factor of the letters' loss alone.",
         lambda words, letters, alpha: {
             name: alpha * (words.get(name, 0.0) + letters.get(name, 0.0))
             for name in {*words, *letters}}),
        ("alpha is a factor of the letters' loss, not of the words'.",
         lambda words, letters, alpha: {name: alpha * words.get(name, 0.0) + letters.get(name, 0.0)
                                        for name in {*words, *letters}}),
        ("this overwrites one of the two where both have a gradient: add them.",
         lambda words, letters, alpha: words | {
             name: alpha * value for name, value in letters.items()}),
        ("this overwrites the letters' gradient where both have one: add them.",
         lambda words, letters, alpha: {
             name: alpha * value for name, value in letters.items()} | words)],
}
