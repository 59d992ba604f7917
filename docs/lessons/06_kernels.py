# %% [markdown]
# # 6. From the derivation to the kernel
#
# The derivation of lesson 2 is right, readable, and slow. `lstm/cells/lstm.py` and the loop over
# time in `lstm/recurrent.py` are the same mathematics, and fast. You will go from one to the other
# step by step, verify that the results agree, and measure what each step gains. The thesis
# describes the first two steps: mini-batches (section 2.2.1), and one matrix for all gates
# (Eqs. 2.24 and 2.38).
#
# The times are those of one core. Run the lesson to see those of your own machine.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, GREEN, GREY, ORANGE
from exercises import difference, exercise
from mistakes import KERNELS as MISTAKES

from backend.workspace import Workspace
from grads.check import check_pair
from grads.derivations import lstm as derivation
from grads.derivations.calculus import sigm
from lstm.cells import CELLS
from lstm.recurrent import recurrent_backward, recurrent_forward


def draw(T, B, H, dtype):
    """x (T, B, H), T_lstm (4H, 2H), and dh (T, B, H) of all h_t."""
    rng = np.random.default_rng(0)
    x, W, dh = (rng.normal(size=shape)
                for shape in ((T, B, H), (4 * H, 2 * H), (T, B, H)))
    return [a.astype(dtype) for a in (x, W / np.sqrt(2 * H), dh)]


# %% [markdown]
# Every form below is a function of the same three arrays. It runs forward and backward, and returns
# $\mathbf{h}$ (T, B, H), $d\mathbf{x}$ (T, B, E) and $d\mathbf{T}_{lstm}$ (4H, E + H).
#
# ## Form 0: the derivation
#
# This form takes one example and one time step at a time, in columns. We compare the others with
# it.

# %%
def one_by_one(x, W, dh_out):
    (T, B, _), H = x.shape, dh_out.shape[2]
    h_all = np.zeros((T, B, H), x.dtype)
    dx_all, dW = np.zeros_like(x), np.zeros_like(W)
    for example in range(B):
        v = x[:, example, :, None]
        zero = np.zeros((H, 1), x.dtype)
        h, c = [zero], [zero]
        for t in range(T):
            for states, new in zip((h, c), derivation.lstm(h[t], c[t], v[t], W),
                                   strict=True):
                states.append(new)                            # (2.40)
            h_all[t, example] = h[-1][:, 0]
        dh, dc = zero, zero
        for t in range(T - 1, -1, -1):
            dh = dh + dh_out[t, example, :, None]          # Algorithm 2, line 5
            dh, dc, dx, dT, _ = derivation.lstm_grad(dh, dc, h[t], c[t], v[t],
                                                     W)
            dx_all[t, example] = dx[:, 0]                     # (2.47)
            dW = dW + dT                                      # lines 14, 15
    return h_all, dx_all, dW


# %% [markdown]
# This is the form that can be followed line by line:
#
# In the stepper: `grads explore lstm`, at `da = g_prime(a) * du`.
#
# ## Form 1: a batch, in rows
#
# This form computes $B$ examples at once. A column becomes a row, $\mathbf{T}\mathbf{x}$ becomes
# $\mathbf{X}\mathbf{T}^\top$, and each matrix is read once for all examples. The sum over examples
# leaves the loop. It is now part of the product $d\mathbf{T} = d\mathbf{A}^\top \mathbf{X}$, whose
# inner index is the example. Here each gate still has two matrices of its own, as in Eq. 2.35, so a
# step forward has eight matrix products.

# %%
def eight_products(x, W, dh_out):
    (T, B, E), H = x.shape, dh_out.shape[2]
    gates = np.split(W, 4)
    W_x, W_h = ([gate[:, columns] for gate in gates]
                for columns in (slice(0, E), slice(E, None)))
    h, c, kept = [np.zeros((B, H), x.dtype)], [np.zeros((B, H), x.dtype)], []
    for t in range(T):
        a = [x[t] @ W_x[k].T + h[t] @ W_h[k].T for k in range(4)]  # (2.35)
        i, f, o, h_hat = sigm(a[0]), sigm(a[1]), sigm(a[2]), np.tanh(a[3])
        c.append(f * c[t] + i * h_hat)                        # (2.36)
        h.append(o * np.tanh(c[-1]))                          # (2.37)
        kept.append((i, f, o, h_hat))
    dh, dc, dx = np.zeros_like(h[0]), np.zeros_like(h[0]), np.zeros_like(x)
    dW = [[np.zeros_like(w) for w in pair]
          for pair in zip(W_x, W_h, strict=True)]
    for t in range(T - 1, -1, -1):
        dh = dh + dh_out[t]
        i, f, o, h_hat = kept[t]
        tanh_c = np.tanh(c[t + 1])
        dc = dc + (1 - tanh_c**2) * o * dh                    # (2.42)
        # (2.45), (2.43), (2.41), (2.46)
        da = (h_hat * dc * i * (1 - i), c[t] * dc * f * (1 - f),
              tanh_c * dh * o * (1 - o), i * dc * (1 - h_hat**2))
        dh = np.zeros_like(dh)
        for k in range(4):
            dW[k][0] += da[k].T @ x[t]                        # (2.49)
            dW[k][1] += da[k].T @ h[t]                        # (2.50)
            dx[t] += da[k] @ W_x[k]                           # (2.47)
            dh += da[k] @ W_h[k]                              # (2.48)
        dc = f * dc                                           # (2.44)
    return np.array(h[1:]), dx, np.vstack([np.hstack(pair) for pair in dW])


# %% [markdown]
# ## Form 2: one product for all gates
#
# Stack the gates: $\mathbf{T}_{lstm}$ is (4H, E + H) and $\mathbf{u}_t = g(\mathbf{T}_{lstm}
# \mathbf{z}_t)$ (2.38). Each gate is a block of rows of the result, and the numbers are the same as
# before. The backward has two products per step, one for each factor (Corollary 1).

# %%
def one_product(x, W, dh_out):
    (T, B, E), H = x.shape, dh_out.shape[2]
    h, c, kept = [np.zeros((B, H), x.dtype)], [np.zeros((B, H), x.dtype)], []
    for t in range(T):
        z = np.hstack([x[t], h[t]])
        a = z @ W.T                                           # (2.38)
        i, f, o = np.split(sigm(a[:, :3 * H]), 3, axis=1)
        h_hat = np.tanh(a[:, 3 * H:])
        c.append(f * c[t] + i * h_hat)                        # (2.36)
        h.append(o * np.tanh(c[-1]))                          # (2.37)
        kept.append((z, i, f, o, h_hat))
    dh, dc, dx, dW = (np.zeros_like(a) for a in (h[0], c[0], x, W))
    for t in range(T - 1, -1, -1):
        dh = dh + dh_out[t]
        z, i, f, o, h_hat = kept[t]
        tanh_c = np.tanh(c[t + 1])
        dc = dc + (1 - tanh_c**2) * o * dh                    # (2.42)
        da = np.hstack([h_hat * dc * i * (1 - i), c[t] * dc * f * (1 - f),
                        tanh_c * dh * o * (1 - o), i * dc * (1 - h_hat**2)])
        dW += da.T @ z                                        # (2.49), (2.50)
        dz = da @ W
        dx[t], dh = dz[:, :E], dz[:, E:]                      # (2.47), (2.48)
        dc = f * dc                                           # (2.44)
    return np.array(h[1:]), dx, dW


# %% [markdown]
# ## Form 3: products out of the loop
#
# The loop exists because $\mathbf{h}_t$ needs $\mathbf{h}_{t-1}$. Everything else can leave the
# loop:
#
# - $\mathbf{T}_x\mathbf{x}_t$ of all steps is one product *before* the loop, (TB, E) times (E, 4H);
# - $d\mathbf{T}_x = \sum_t d\mathbf{A}_t^\top \mathbf{X}_t$ is one product *after* the loop, and so
#   is $d\mathbf{T}_h$. Stack the $d\mathbf{A}_t$: the sum over time becomes part of the inner
#   index, as the sum over examples did;
# - $d\mathbf{x}_t = \mathbf{T}_x^\top d\mathbf{a}_t$ is one more product after the loop.
#
# Two products per step remain, one forward and one backward. They are the recurrence itself.
# `recurrent_forward` and `recurrent_backward` are this form, for any cell. The LSTM cell uses one
# more trick:
#
# $$\mathrm{sigm}(z) = \tfrac12 \tanh(z / 2) + \tfrac12$$
#
# With it a single tanh computes all four gates. Results are written in place, which saves memory
# traffic.

# %%
def sequence(x, W, dh_out, workspace=None):
    zero = np.zeros(dh_out.shape[1:], x.dtype)
    h, _, cache = recurrent_forward(CELLS["lstm"], x, (zero, zero), W,
                                    workspace=workspace)
    dx, _, dW, _ = recurrent_backward(dh_out, None, cache)
    return h, dx, dW


# %% [markdown]
# ## Form 4: buffers kept
#
# Allocating a large array can cost more than the arithmetic on it: the operating system has to find
# and clear its pages. A `Workspace` keeps buffers, and reuses one as soon as nothing else refers to
# it.

# %%
kept_workspace = Workspace()


def with_buffers(x, W, dh_out):
    return sequence(x, W, dh_out, kept_workspace)


FORMS = {"0 derivation, one by one": one_by_one,
         "1 batch in rows, 8 products": eight_products,
         "2 one product for all gates": one_product,
         "3 products out of the loop": sequence, "4 buffers kept": with_buffers}

# %% [markdown]
# ## Equal up to rounding
#
# The forms do the same additions in another order, and floating-point addition is not associative.
# So they agree up to rounding, not bit for bit, and the comparison needs a tolerance. A rounding
# error in float64 is about $10^{-16}$ of the largest gradient; allow for a few hundred of them. A
# mistake in a formula usually changes the result by many powers of ten more.

# %%
worst = {}
for dtype in ("float64", "float32"):
    case = draw(20, 16, 64, dtype)
    trusted = one_by_one(*(a.astype("float64") for a in case))
    for name, form in FORMS.items():
        worst[dtype, name] = max(float(np.abs(a - b).max() / np.abs(b).max())
                                 for a, b in zip(form(*case), trusted,
                                                 strict=True))
for name in FORMS:
    print(f"{name:30} float64 {worst['float64', name]:.1e}   float32 "
          f"{worst['float32', name]:.1e}")
assert max(worst["float64", name] for name in FORMS) < 1e-13

# %% [markdown]
# The complex step checks the kernel without the derivation:

# %%
def small_forward(x, h0, c0, W):
    h, last, cache = recurrent_forward(CELLS["lstm"], x, (h0, c0), W)
    return (h, *last), cache


def small_backward(d_out, cache):
    dx, d_first, dW, _ = recurrent_backward(d_out[0], d_out[1:], cache)
    return dx, *d_first, dW


rng = np.random.default_rng(1)
tiny = [rng.normal(size=shape)
        for shape in ((3, 2, 4), (2, 3), (2, 3), (12, 7))]
print(check_pair(small_forward, small_backward, tiny))

# %% [markdown]
# ## Measured
#
# The times are medians over several runs, after one warm-up, in float32, as in training. There is a
# small case, and a larger one without form 0, which would take too long.

# %%
def median_time(run, repeats=7):
    """Seconds."""
    run()
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return float(np.median(spent))


def time_forms(T, B, H, names):
    """Seconds of each form, forward and backward."""
    case = draw(T, B, H, "float32")
    return {name: median_time(lambda form=FORMS[name]: form(*case))
            for name in names}


names = list(FORMS)
spent = {(20, 16, 64): time_forms(20, 16, 64, names),
         (20, 32, 256): time_forms(20, 32, 256, names[1:])}
figure, axes = plt.subplots(1, 3, figsize=(12, 2.8), width_ratios=[1.2, 1, 1])
for place, ((T, B, H), seconds) in zip(axes, spent.items(), strict=False):
    first = next(iter(seconds.values()))
    for name, value in seconds.items():
        place.barh(name if place is axes[0] else name[0], 1e3 * value,
                   color=GREY if name == names[0] else BLUE)
        place.text(1e3 * value, len(place.patches) - 1,
                   f" {1e3 * value:.1f} ms, {first / value:.2g}x", va="center")
    place.set(title=f"T = {T}, B = {B}, E = H = {H}", xlabel="milliseconds")
    place.invert_yaxis()
axes[0].set(xscale="log", xlim=(0.5, 20e3 * spent[20, 16, 64][names[0]]),
            ylabel="form")
axes[1].set_xlim(0, 1.6e3 * max(seconds.values()))
for k, (dtype, color) in enumerate({"float64": GREEN,
                                    "float32": ORANGE}.items()):
    axes[2].barh(np.arange(5) + 0.4 * k - 0.2,
                 [worst[dtype, name] + 1e-18 for name in names], 0.38,
                 color=color, label=dtype)
    axes[2].axvline(np.finfo(dtype).eps, color=color, linestyle=":")
axes[2].set(xscale="log", xlim=(1e-17, 1e2),
            xlabel="difference from form 0 in float64",
            title="precision: the dotted lines are eps")
axes[2].set_yticks(range(5), [name[0] for name in names])
axes[2].invert_yaxis()
axes[2].legend(loc="center right")
plt.show()
seconds = spent[20, 16, 64]
assert seconds[names[3]] < seconds[names[0]] / 3

# %% [markdown]
# The first two charts show the times. The third shows the differences from form 0, which stay as
# small as rounding errors. Form 1 gains by far the most, for two reasons. First, Python and NumPy
# take about a microsecond for each call, whatever it does, and form 0 makes as many calls for one
# example as form 1 for all of them. Second, a product of a matrix with one vector reads each weight
# for a single multiplication and addition; with $B$ vectors each weight is used $B$ times once it
# is in the cache.
#
# Form 2 makes fewer calls, which helps if the arrays are small. If they are large it gains little
# on a CPU: the product that is added to $d\mathbf{T}_{lstm}$ is still a new (4H, E + H) array at
# every step. Form 3 writes it once. (The thesis stacks the gates because of GPUs.)
#
# The next figure shows the second reason alone, and the trick with the tanh:

# %%
weights = np.random.default_rng(0).normal(size=(1024, 512)).astype("float32")
sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256)
rates = []
for batch in sizes:
    rows = np.ones((batch, 512), "float32")
    out = np.empty((batch, 1024), "float32")
    seconds = median_time(lambda rows=rows, out=out: np.matmul(rows, weights.T,
                                                               out=out), 15)
    rates.append(2 * batch * weights.size / seconds / 1e9)

z = np.random.default_rng(0).normal(size=(64, 4 * 512)).astype("float32")
out = np.empty_like(z)
cells = {
    "1 / (1 + exp(-z)) on three\ngates, tanh on the fourth": median_time(
        lambda: (sigm(z[:, :1536]), np.tanh(z[:, 1536:])), 15),
    "one tanh on all four,\nin place": median_time(
        lambda: np.tanh(np.multiply(z, 0.5, out=out), out=out), 15),
}
figure, axes = plt.subplots(1, 2, figsize=(11, 2.8))
axes[0].semilogx(sizes, rates, "o-", base=2)
axes[0].set(title="one product (B, 512) x (512, 1024)", xlabel="B",
            ylim=(0, None), ylabel="billion operations / s")
axes[0].set_xticks(sizes, sizes)
axes[1].barh(list(cells), [1e6 * seconds for seconds in cells.values()],
             color=[GREY, BLUE])
axes[1].set(title="the non-linearities of a (64, 2048) step",
            xlabel="microseconds")
plt.show()
call = median_time(lambda: np.add(1.0, 1.0), 1000)
print(f"at B = 64 the product runs at {rates[6] / rates[0]:.1f} times the rate "
      "of B = 1")
print(f"a call of NumPy that adds 1 and 1 takes {1e6 * call:.2f} microseconds")
assert rates[6] > rates[0]

# %% [markdown]
# The rate grows with $B$, so training and beam search run in batches. ($B = 1$ has a routine of its
# own in NumPy's BLAS library, so $B = 2$ may be slower.) For the same reason a fast kernel has rows
# where the thesis has columns: all steps and examples flatten into the rows of one product. In the
# larger case above the products are most of the work, so forms 2 to 4 gain less.
#
# ## Exercise 1: a sigmoid from tanh
#
# Write $\mathrm{sigm}(z)$ with `np.tanh` and no `np.exp`. (It then cannot overflow.)

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="tanh(z) runs from -1 to 1, sigm from 0 to 1; and at 0 sigm "
          "has slope 1/4, tanh has slope 1", mistakes=MISTAKES[1])
def check_exercise_1(answer):
    z = np.linspace(-30, 30, 61)
    return difference(answer(z.copy()), sigm(z), "sigm(z)")


# %%
# Your turn
def answer_1(z):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(z):
    return 0.5 * np.tanh(0.5 * z) + 0.5


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: a sum over time without a loop
#
# From `da` (T, B, 4H) and `x` (T, B, E) make $d\mathbf{T}_x = \sum_t \sum_b d\mathbf{a}\,
# \mathbf{x}^\top$, (4H, E): one product, no loop, no `einsum`.

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="flatten time and batch into one axis with reshape; it "
          "becomes the inner index of the product", mistakes=MISTAKES[2])
def check_exercise_2(answer):
    draw = np.random.default_rng(2)
    da, x = draw.normal(size=(5, 3, 8)), draw.normal(size=(5, 3, 4))
    expected = sum(np.outer(da[t, b], x[t, b]) for t in range(5)
                   for b in range(3))
    return difference(answer(da, x), expected, "dT_x")


# %%
# Your turn
def answer_2(da, x):
    return None


check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
def solution_2(da, x):
    # (2.49), summed
    return da.reshape(-1, da.shape[2]).T @ x.reshape(-1, x.shape[2])


check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: how fast is that?
#
# Count the floating-point operations in the matrix products of one forward pass. Return the number
# as a function of T, B, E and H. A multiplication and an addition count as two. The number divided
# by the time is the achieved rate.

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="a product of (m, k) and (k, n) has m n sums of k terms: 2 m "
          "k n operations. All T B rows of z are multiplied by T_lstm, (4H, "
          "E + H)", mistakes=MISTAKES[3])
def check_exercise_3(answer):
    for sizes in ((7, 3, 5, 2), (20, 16, 64, 64)):
        T, B, E, H = sizes
        expected = 2 * T * B * 4 * H * E + 2 * T * B * 4 * H * H
        if fault := difference(answer(*sizes), expected,
                               f"the count for T, B, E, H = {sizes}"):
            return fault
    return None


# %%
# Your turn
def answer_3(T, B, E, H):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution
#
# The backward pass needs twice as many: for each product forward there are two backward, one for
# each factor (Corollary 1).

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(T, B, E, H):
    return 2 * T * B * 4 * H * (E + H)


check_exercise_3(solution_3, "Solution")
for (T, B, H), seconds in spent.items():
    operations = 3 * solution_3(T, B, H, H)
    print(f"T = {T}, B = {B}, E = H = {H}")
    for name, value in seconds.items():
        print(f"  {name:30} {operations / value / 1e9:6.1f} billion operations "
              "/ s")
