# %% [markdown]
# # 2. The LSTM, and why its gradient lasts
#
# Section 2.2.2 of the thesis, Eqs. 2.31 to 2.50 and Algorithm 2. You will set an LSTM cell's
# weights by hand, go through its gradient line by line, measure how far a gradient reaches through
# a vanilla unit and through an LSTM, and see the effect in training.
#
# Beside this page: `grads/derivations/lstm.py`, one equation per line.

# %%
import matplotlib.pyplot as plt
import numpy as np
from drawing import GREY, heat_map
from exercises import NUMBER, difference, exercise, verdict, wrong_form
from mistakes import LSTM as MISTAKES

from grads.check import check_gradients, check_pair
from grads.derivations import lstm, rnn
from grads.derivations.calculus import sigm, tanh_prime
from lstm.cells import CELLS
from lstm.embedding import (
    embedding_backward,
    embedding_forward,
    embedding_weight,
)
from lstm.parameters import Scheme, Weight, axis, initialise
from lstm.prediction import prediction_backward, prediction_forward
from lstm.recurrent import recurrent_backward, recurrent_forward
from lstm.stack import Stack, stack_weights, zero_state
from nmt.training.optimizers import Adam

# %% [markdown]
# ## The problem with line 8
#
# Lesson 1 ended with a gradient that nearly vanished. Leave out all losses but the last. Then line
# 8 of Algorithm 1, applied $K$ times, gives
#
# $$d\mathbf{h}_{t-K} = \prod_{i=1}^{K} \mathbf{W}_{hh}^\top
#   \mathrm{diag}(\sigma'(\mathbf{T}_{rnn}\mathbf{z}_{t-i+1}))\; d\mathbf{h}_t .$$
#
# A product of $K$ similar matrices grows or shrinks like a power. If $\lambda$ is the largest
# singular value of $\mathbf{W}_{hh}$, then $\lVert d\mathbf{h}_{t-K} \rVert \le (\lambda \max
# \sigma')^K \lVert d\mathbf{h}_t \rVert$. That is only an upper bound, so `rnn_flow` measures the
# norm for several sizes of $\mathbf{W}_{hh}$. It takes an orthogonal matrix times $\rho$: then
# every singular value is $\rho$, and so is the modulus of every eigenvalue. A figure below shows
# the measured norms beside those of the LSTM.

# %%
K, H, E = 60, 32, 8
rng = np.random.default_rng(1)
inputs = rng.normal(size=(K + 1, E, 1)) * 0.3  # x_1 .. x_K
orthogonal = np.linalg.qr(rng.normal(size=(H, H)))[0]
W_xh = rng.normal(size=(H, E)) * 0.3


def rnn_flow(rho):
    """Norms of dh_{T-k}, k = 0 .. K, for |dh_T| = 1; the bound's factor."""
    T = np.hstack([W_xh, rho * orthogonal])
    h = [np.zeros((H, 1))]
    for t in range(1, K + 1):
        h.append(rnn.rnn(inputs[t], h[-1], T))                # (2.3)
    dh = rng.normal(size=(H, 1))
    norms, slopes = [1.0], []
    dh /= np.linalg.norm(dh)
    for t in range(K, 0, -1):
        dh, _, _, _ = rnn.rnn_grad(dh, inputs[t], h[t - 1], T)  # line 8
        norms.append(np.linalg.norm(dh))
        slopes.append(tanh_prime(T @ np.vstack([inputs[t], h[t - 1]])).max())
    return np.array(norms), rho * np.array(slopes)


# %% [markdown]
# ## From a sum to an LSTM
#
# The remedy is a path on which the gradient meets no matrix. In
#
# $$\mathbf{c}_t = \mathbf{c}_{t-1} + \sigma(\mathbf{W}_{xh}\mathbf{x}_t +
#   \mathbf{W}_{hh}\mathbf{h}_{t-1}), \quad \mathbf{h}_t = \mathbf{c}_t \qquad (2.31, 2.32)$$
#
# the gradient of $\mathbf{c}_t$ passes through the first term to $\mathbf{c}_{t-1}$ unchanged,
# whatever the weights are. Follow it from step to step. On this path it meets no factor:
#
# In the stepper: `grads explore adding-memory`, at `dc_prev = dc`.
#
# But such a memory can only add. Gates let it forget, ignore an input, and withhold its output:
#
# $$\mathbf{c}_t = \mathbf{f}_t \circ \mathbf{c}_{t-1} + \mathbf{i}_t \circ
#   \sigma(\mathbf{W}_{xh}\mathbf{x}_t + \mathbf{W}_{hh}\mathbf{h}_{t-1}) \quad (2.33) \qquad
#   \mathbf{h}_t = \mathbf{o}_t \circ \sigma(\mathbf{c}_t) \quad (2.34)$$
#
# If the gates never change, then after $k$ steps the gradient is multiplied by $\mathbf{f}^k$:
#
# In the stepper: `grads explore gated-memory`, at `dc_prev = f * dc`.
#
# The LSTM takes the last step. It computes its gates from the input and from the previous state:
#
# $$\mathbf{u}_t = [\mathbf{i}_t; \mathbf{f}_t; \mathbf{o}_t; \hat{\mathbf{h}}_t]
#   = g(\mathbf{T}_x\mathbf{x}_t + \mathbf{T}_h\mathbf{h}_{t-1}) \quad (2.35, 2.38, 2.39)$$
# $$\mathbf{c}_t = \mathbf{f}_t \circ \mathbf{c}_{t-1} + \mathbf{i}_t \circ \hat{\mathbf{h}}_t
#   \quad (2.36) \qquad
#   \mathbf{h}_t = \mathbf{o}_t \circ \tanh(\mathbf{c}_t) \quad (2.37)$$
#
# $g$ is the sigmoid on the three gates and tanh on $\hat{\mathbf{h}}$. Set the weights of a single
# cell by hand: a memory that can be written, kept, read and wiped. Its input has four numbers: a
# value, and signals to write, to read and to wipe.

# %%
#                 value write read wipe  h_{t-1}
latch = np.array([[0.0, 12.0, 0.0, 0.0, 0.0],     # i opens to write
                  [0.0, -12.0, 0.0, -12.0, 0.0],  # f closes to write and wipe
                  [0.0, 0.0, 12.0, 0.0, 0.0],     # o opens to read
                  [2.0, 0.0, 0.0, 0.0, 0.0]])     # h_hat is the value
b_latch = np.array([[-6.0], [6.0], [-6.0], [0.0]])
wishes = {1: (0.8, "write"), 4: (0.0, "read"), 6: (-0.9, "write"),
          9: (0.0, "read"), 11: (0.0, "wipe"), 12: (0.0, "read")}
steps = range(1, 14)
order = ("write", "read", "wipe")
noise = np.random.default_rng(0).uniform(-1, 1, len(steps) + 1)
h, c, rows = np.zeros((1, 1)), np.zeros((1, 1)), []
for t in steps:
    value, wish = wishes.get(t, (noise[t], ""))
    x = np.array([[value], *([float(wish == name)] for name in order)])
    u = lstm.g(latch @ np.vstack([x, h]) + b_latch)           # (2.35)
    h, c = lstm.lstm(h, c, x, latch, b_latch)                 # (2.36, 2.37)
    rows.append([value, *u[:, 0], c[0, 0], h[0, 0]])

figure, axes = plt.subplots(figsize=(10, 2.9))
heat_map(axes, np.array(rows).T, "a cell set by hand: one column per time step",
         ["value", "i", "f", "o", "h_hat", "c", "h"],
         [f"{t}\n{wishes.get(t, (0, ''))[1]}" for t in steps])
plt.show()

# %% [markdown]
# Follow the row $c$. At `write` the cell stores $\tanh(2 \cdot 0.8)$. It keeps this number while
# the row `value` is noise, and outputs the tanh of it, in $h$, only at `read`. With $f = 1$ and
# $i = 0$ Eq. 2.36 is $\mathbf{c}_t = \mathbf{c}_{t-1}$: neither the memory nor its gradient
# changes.
#
# ## Algorithm 2, line by line
#
# Lines 3 to 5 equal lines 2 to 4 of Algorithm 1: they give $d\mathbf{h}_t$, from the prediction at
# $t$ and from time $t+1$. One part of $d\mathbf{c}_t$ has already come from $\mathbf{c}_{t+1}$. The
# table shows the next lines. Remark 2 (2.15, 2.16) differentiates $\mathbf{u} \circ f(\mathbf{v})$,
# and Remark 3 (2.17, 2.18) differentiates $\mathbf{u} \circ \mathbf{v}$.
#
# | line | | Eq. | from |
# |---|---|---|---|
# | 7 | $d\mathbf{o}_t = \tanh(\mathbf{c}_t) \circ d\mathbf{h}_t$ | 2.41 | Remark 2 on 2.37 |
# | 8 | $d\mathbf{c}_t$ += $\tanh'(\mathbf{c}_t) \circ \mathbf{o}_t \circ d\mathbf{h}_t$ | 2.42 | |
# | 9 | $d\mathbf{f}_t = \mathbf{c}_{t-1} \circ d\mathbf{c}_t$ | 2.43 | Remark 3 on 2.36 |
# | 10 | $d\mathbf{i}_t = \hat{\mathbf{h}}_t \circ d\mathbf{c}_t$ | 2.45 | Remark 3 on 2.36 |
# | 11 | $d\hat{\mathbf{h}}_t = \mathbf{i}_t \circ d\mathbf{c}_t$ | 2.46 | Remark 3 on 2.36 |
# | 12 | $d\mathbf{c}_{t-1} = \mathbf{f}_t \circ d\mathbf{c}_t$ | 2.44 | Remark 3 on 2.36 |
# | 13 | $d\mathbf{u}_t = [d\mathbf{i}_t; d\mathbf{f}_t; d\mathbf{o}_t; d\hat{\mathbf{h}}_t]$ | | |
# | 14 | $d\mathbf{T}_x$ += $d\mathbf{a}_t\,\mathbf{x}_t^\top$ | 2.49 | Lemma 1 |
# | 15 | $d\mathbf{T}_h$ += $d\mathbf{a}_t\,\mathbf{h}_{t-1}^\top$ | 2.50 | Lemma 1 |
#
# Here $d\mathbf{a}_t = g'(\mathbf{T}_{lstm}\mathbf{z}_t) \circ d\mathbf{u}_t$, with
# $\mathbf{T}_{lstm} = [\mathbf{T}_x\ \mathbf{T}_h]$ and $\mathbf{z}_t = [\mathbf{x}_t;
# \mathbf{h}_{t-1}]$. The printed list ends at line 15. Two lines are missing (erratum 2):
# $d\mathbf{x}_t = \mathbf{T}_x^\top d\mathbf{a}_t$ (2.47) and
# $d\mathbf{h}_{t-1} = \mathbf{T}_h^\top d\mathbf{a}_t$ (2.48). Without them only $d\mathbf{c}$
# goes back in time. Lines 14 and 15 also print $\leftarrow$ where a sum over time is meant.
# `lstm_grad` has lines 7 to 15 and these two.
#
# In the stepper: `grads explore lstm`, at `dc = dc + tanh_prime(c) * o * dh`.

# %%
x, y = [1, 3, 4, 2, 5], [3, 4, 2, 5, 1]
parameters = {"W_e": rng.normal(size=(6, 3)), "T": rng.normal(size=(16, 7)),
              "W_hy": rng.normal(size=(6, 4)), "b": rng.normal(size=16)}
J, trace = lstm.forward(parameters, x, y)
gradients, _, _ = lstm.backward(parameters, x, y, trace)


def loss(p):
    return lstm.forward(p, x, y)[0]


print(check_gradients(loss, parameters, gradients))

# %% [markdown]
# Now remove lines, one at a time, and let the checker find which gradients become wrong. `broken`
# is `lstm.backward` with another function in place of `lstm_grad`.

# %%
def broken(unit):
    """Gradients of the loss with `unit` instead of lstm_grad."""
    p, H = parameters, 4
    dh, dc = np.zeros((H, 1)), np.zeros((H, 1))
    d = {name: np.zeros_like(value) for name, value in p.items()}
    for t in range(len(x), 0, -1):
        d_vertical, dW_hy, _ = rnn.predict_grad(y[t - 1], trace.p[t],
                                                trace.h[t], p["W_hy"])
        dh, dc, dx, dT, db = unit(dh + d_vertical, dc, trace.h[t - 1],
                                  trace.c[t - 1], trace.x[t], p["T"],
                                  p["b"][:, None])
        d["W_hy"] += dW_hy
        d["T"] += dT
        d["b"] += db[:, 0]
        d["W_e"] = rnn.embed_grad(x[t - 1], dx, d["W_e"])
    return d


def without(position):
    """lstm_grad, one of whose results is lost: dh, dc or dx."""
    def unit(*given):
        results = list(lstm.lstm_grad(*given))
        results[position] = 0 * results[position]
        return results
    return unit


CASES = {"whole": lstm.lstm_grad, "no dh_{t-1} (2.48)": without(0),
         "no dc_{t-1} (line 12)": without(1), "no dx_t (2.47)": without(2)}
errors = []
for name, unit in CASES.items():
    report = check_gradients(loss, parameters, broken(unit), method="complex",
                             diagnosis=0)  # no hints
    wrong = [row.name for row in report.wrong]
    errors.append([np.log10(max(row.error, 1e-16)) for row in report.rows])
    print(f"{name:22} wrong: {', '.join(wrong) or 'none'}")
figure, axes = plt.subplots(figsize=(6, 2.3))
heat_map(axes, np.array(errors) + 16,
         "digits lost: 16 + log10 of the relative error", list(CASES),
         list(parameters), signed=False, numbers="{:.0f}", top=16)
plt.show()

# %% [markdown]
# The gradient of `W_hy` is always right, since it needs no gradient from below the prediction
# layer. Without $d\mathbf{x}_t$ only the embeddings' gradient is wrong. Without one of the two
# recurrent gradients earlier time steps get too little, so every gradient below the prediction
# layer is wrong. The set of wrong tensors therefore shows where to look: the checker's hints work
# like this.
#
# ## How far does the gradient reach?
#
# Measure both units: $\lVert d\mathbf{h}_{T-k} \rVert$ for the vanilla unit, and
# $\lVert d\mathbf{c}_{T-k} \rVert$ for an LSTM whose forget gates have biases of $b_f$.

# %%
def lstm_flow(b_f):
    """Norms of dc_{T-k}, k = 0 .. K, for |dc_T| = 1; the mean forget gate."""
    draw = np.random.default_rng(2)
    T = draw.normal(size=(4 * H, E + H)) * 0.1
    b = np.repeat([0.0, b_f, 0.0, 0.0], H)[:, None]
    h, c, f = [np.zeros((H, 1))], [np.zeros((H, 1))], []
    for t in range(1, K + 1):
        f.append(sigm(T @ np.vstack([inputs[t], h[-1]]) + b)[H:2 * H].mean())
        for states, new in zip((h, c), lstm.lstm(h[-1], c[-1], inputs[t], T, b),
                               strict=True):
            states.append(new)                                # (2.40)
    dh, dc = np.zeros((H, 1)), draw.normal(size=(H, 1))
    dc /= np.linalg.norm(dc)
    norms = [1.0]
    for t in range(K, 0, -1):
        dh, dc, _, _, _ = lstm.lstm_grad(dh, dc, h[t - 1], c[t - 1], inputs[t],
                                         T, b)
        norms.append(np.linalg.norm(dc))
    return np.array(norms), np.mean(f)


figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
for rho in (0.6, 0.9, 1.0, 1.5, 3.0):
    norms, factors = rnn_flow(rho)
    line, = axes[0].semilogy(norms, label=f"rho = {rho}")
    axes[0].semilogy(np.cumprod([1.0, *factors]), ":", color=line.get_color(),
                     linewidth=1)
axes[0].set(title="vanilla unit: norm of dh; dotted: its bound",
            xlabel="steps back, k", ylim=(1e-14, 1e18))
for b_f in (0, 1, 2, 4):
    norms, f = lstm_flow(b_f)
    line, = axes[1].semilogy(norms, label=f"b_f = {b_f}: f = {f:.2f}")
    axes[1].semilogy(f ** np.arange(K + 1), ":", color=line.get_color(),
                     linewidth=1)
axes[1].set(title="LSTM: norm of dc; dotted: f to the k",
            xlabel="steps back, k")
for place in axes:
    place.legend(loc="upper left", ncols=2)
plt.show()

# %% [markdown]
# Left: straight lines on a logarithmic scale, so the norm is a power of a factor. Up to $\rho = 1$
# the gradient vanishes. Far above, it explodes, though more slowly than the bound: large states
# saturate tanh, and there $\sigma'$ is small. A constant norm would need an exactly balanced
# $\mathbf{W}_{hh}$.
#
# Right: the same decay, but its rate is a *gate*: $d\mathbf{c}_{t-1} = \mathbf{f}_t \circ
# d\mathbf{c}_t$, line 12. A rate near one needs no exact balance, only a bias of 4 or a suitable
# input. The dotted line is the path through the gate alone; the rest comes through $\mathbf{h}$.
# At $b_f = 0$ an LSTM forgets half at each step. That is why $b_f$ is often initialised with 1.
#
# Exploding gradients have a simpler remedy (section 2.2.2): clip each element of $d\mathbf{h}$ to
# $[-\tau, \tau]$, or scale the whole gradient down when its norm exceeds $\tau$.
#
# ## The effect in training
#
# Here is a task that needs only memory: read one of four letters, then thirty random others, and
# predict the first one. We use the kernels of `lstm/`, which compute a batch at a time, with rows
# instead of columns. Lesson 6 shows how they follow from the derivation.

# %%
V, WIDTH, DELAY, B = 8, 24, 30, 32


def train(unit, forget_bias, seed, updates=150):
    """The loss in nats, update by update."""
    draw, adam, curve = np.random.default_rng(seed), Adam(0.01), []
    scheme, letter = Scheme("xavier", 1.0, forget_bias), axis("letter", 4)
    p = initialise({"W_e": embedding_weight(V, 8, scheme),
                    **stack_weights("rnn", Stack(unit, 1, WIDTH), {"x": 8},
                                    scheme),
                    "W_hy": Weight((letter, axis("unit", WIDTH)),
                                   scheme.matrix())}, draw)
    for _ in range(updates):
        letters = draw.integers(4, size=(1, B))
        noise = draw.integers(4, V, size=(DELAY, B))
        x, read = embedding_forward(p["W_e"], np.concatenate([letters, noise]))
        start = zero_state(np, unit, B, WIDTH, x.dtype)
        _, last, ran = recurrent_forward(CELLS[unit], x, start, p["rnn.0.W"],
                                         p["rnn.0.b"])
        # (2.8), at the end only
        loss, said = prediction_forward(last[0], letters[0], p["W_hy"])
        dh, dW_hy, _ = prediction_backward(said)
        d_last = (dh, *[None] * (len(last) - 1))
        # Algorithms 1 and 2
        dx, _, dT, db = recurrent_backward(None, d_last, ran)
        gradients = {"W_e": embedding_backward(dx, read), "rnn.0.W": dT,
                     "rnn.0.b": db, "W_hy": dW_hy}
        adam.update(p, gradients, 1 / B)
        curve.append(float(loss) / B)
    return np.array(curve)


RUNS = {"vanilla": ("rnn", 0.0), "LSTM, b_f = 0": ("lstm", 0.0),
        "LSTM, b_f = 2": ("lstm", 2.0), "LSTM, b_f = 4": ("lstm", 4.0)}
curves = {name: [train(*how, seed) for seed in range(3)]
          for name, how in RUNS.items()}
figure, axes = plt.subplots(1, 4, figsize=(11, 2.6), sharey=True)
for place, (name, several) in zip(axes, curves.items(), strict=True):
    for curve in several:
        place.plot(np.convolve(curve, np.ones(10) / 10, "valid"))
    place.axhline(np.log(4), color=GREY, linestyle=":")
    place.set(title=name, xlabel="update", ylim=(0, 1.8))
axes[0].set_ylabel("nats (mean of 10)")
plt.show()
ends = {name: [float(curve[-20:].mean()) for curve in several]
        for name, several in curves.items()}
for name, losses in ends.items():
    print(f"{name:14} final losses:",
          ", ".join(f"{loss:.3f}" for loss in losses))
assert max(ends["LSTM, b_f = 4"]) < 0.1 and min(ends["LSTM, b_f = 0"]) > 1.3

# %% [markdown]
# A panel shows three runs with different seeds. The dotted line is the loss of a guess, $\log 4$.
# If the gate forgets half at each step ($b_f = 0$), only $2^{-30}$ of the gradient reaches the
# letter, and none of the three runs learns. With $b_f = 4$ the gate is near one, and all three
# learn. With the vanilla unit success depends on the initial recurrent matrix. Here it is close to
# the balance between vanishing and exploding. What helps is not the LSTM by itself, but a forget
# gate near one.
#
# ## Exercise 1: the cell's gradient
#
# Write lines 8 and 12 of Algorithm 2. You get $d\mathbf{h}_t$, the part of $d\mathbf{c}_t$ that
# comes from $t+1$, and $\mathbf{o}_t$, $\mathbf{f}_t$, $\mathbf{c}_t$. Return the whole
# $d\mathbf{c}_t$, and $d\mathbf{c}_{t-1}$.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="c_t is read twice: by h_t (2.37) and by c_{t+1} (2.36). Its "
          "gradient is a sum", mistakes=MISTAKES[1])
def check_exercise_1(answer):
    draw = np.random.default_rng(7)
    dh, dc, o, f, c = draw.normal(size=(5, H, 1))
    expected = dc + tanh_prime(c) * o * dh
    return difference(answer(dh, dc.copy(), o, f, c), (expected, f * expected))


# %%
# Your turn
def answer_1(dh, dc, o, f, c):
    return None, None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(dh, dc, o, f, c):
    dc = dc + tanh_prime(c) * o * dh                          # (2.42), line 8
    return dc, f * dc                                         # (2.44), line 12


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: half after a hundred steps
#
# Let all other weights be zero. Which bias $b_f$ of the forget gate leaves half of
# $d\mathbf{c}$ after 100 steps?

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="f ** 100 = 1 / 2, and f = sigm(b_f) = 1 / (1 + exp(-b_f)); "
          "solve for b_f", mistakes=MISTAKES[2], form=NUMBER)
def check_exercise_2(answer):
    zero, b = np.zeros((1, 1)), np.array([[0.0], [answer], [0.0], [0.0]])
    dc = np.ones((1, 1))
    for _ in range(100):
        _, dc, _, _, _ = lstm.lstm_grad(zero, dc, zero, zero, zero,
                                        np.zeros((4, 2)), b)
    left = float(dc[0, 0])
    return (None if abs(left - 0.5) < 0.005
            else f"Algorithm 2 leaves {left:.3f} of dc")


# %%
# Your turn
answer_2 = None
check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
f_half = 0.5 ** (1 / 100)
solution_2 = np.log(f_half / (1 - f_half))  # the inverse of the sigmoid
print(f"b_f = {solution_2:.2f}")
check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: a unit with coupled gates
#
# Use one gate for both: the input gate is one minus the forget gate,
#
# $$\mathbf{c}_t = \mathbf{f}_t \circ \mathbf{c}_{t-1} +
#   (1 - \mathbf{f}_t) \circ \hat{\mathbf{h}}_t .$$
#
# Given $d\mathbf{c}_t$, return $d\mathbf{f}_t$, $d\mathbf{c}_{t-1}$ and $d\hat{\mathbf{h}}_t$.

# %%
def coupled(f, c_prev, h_hat):
    return f * c_prev + (1 - f) * h_hat, (f, c_prev, h_hat)

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="f occurs twice: once with c_{t-1}, once with a minus sign "
          "and h_hat. Apply Remark 3 (2.17 and 2.18) to each product",
          mistakes=MISTAKES[3])
def check_exercise_3(answer):
    draw = np.random.default_rng(8)
    inputs = list(draw.normal(size=(3, H, 1)))
    result = answer(np.ones((H, 1)), tuple(inputs))
    if fault := wrong_form(result, tuple(inputs)):
        return fault
    return verdict(check_pair(coupled, answer, inputs))


# %%
# Your turn
def answer_3(dc, cache):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(dc, cache):
    f, c_prev, h_hat = cache
    return (c_prev - h_hat) * dc, f * dc, (1 - f) * dc


check_exercise_3(solution_3, "Solution")
