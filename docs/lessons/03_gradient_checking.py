# %% [markdown]
# # 3. Checking a gradient, and how a check can fool you
#
# A model with a wrong backward pass often still trains, a little worse. So a gradient has to be
# checked, by a method that is independent of its derivation. You will compare three numerical
# derivatives, meet a kink, and then try seven wrong backward passes with eight checks, most of
# which miss some.
#
# Beside this page: `grads/check/simple.py`, the idea on one page; `docs/checking-gradients.md`.

# %%
import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, GREY, ORANGE, heat_map
from exercises import NUMBER, difference, exercise, verdict
from mistakes import CHECKING as MISTAKES

from grads.check import check_gradients, check_pair, simple
from grads.check.differentiate import at_entries
from grads.check.kinks import find_kink
from grads.derivations import rnn
from grads.derivations.calculus import softmax, softmax_grad, tanh_prime
from nmt.data.batches import stream_batches
from nmt.models.language_model import LanguageModel, LanguageModelConfig

# %% [markdown]
# ## Three numerical derivatives
#
# For a step $h$ and a function $L$ of one number:
#
# | | formula | truncation | rounding |
# |---|---|---|---|
# | forward difference | $(L(x+h) - L(x)) / h$ | $h L'' / 2$ | $\epsilon L / h$ |
# | central difference | $(L(x+h) - L(x-h)) / 2h$ | $h^2 L''' / 6$ | $\epsilon L / h$ |
# | complex step | $\mathrm{Im}\, L(x + ih) / h$ | $-h^2 L''' / 6$ | none that grows |
#
# The first two subtract numbers that are nearly equal. As $h$ falls the truncation error falls and
# the rounding error grows: there is a best step, and a smallest error. The complex step subtracts
# nothing. Expand $L(x + ih) = L + ihL' - h^2L''/2 - \dots$: the derivative is in the imaginary
# part, separate from $L$. So $h$ may be $10^{-30}$, where truncation is negligible.
#
# We measure the errors on a real case: the loss of a small LSTM language model, which the fast
# kernels compute. $\epsilon$ is $2^{-52}$ in float64 and $2^{-23}$ in float32.

# %%
model = LanguageModel(LanguageModelConfig(layers=1, hidden_size=4,
                                          embedding_size=3, scale=0.8), 6)
parameters = model.initial_parameters(np.random.default_rng(1), "float64")
text = [1, 4, 2, 5, 3, 3, 2, 5, 3, 4, 1]
# two streams of five predictions each
[batch] = stream_batches(text, batch_size=2, length=5)


def loss(p):
    return model.loss(p, batch)[0]


def gradients_of(p):
    return model.backward(model.loss(p, batch)[1])


by_hand = gradients_of(parameters)["rnn.0.W"]
places = {"rnn.0.W": np.arange(by_hand.size)}


def error_of(method, h):
    """The median relative error over all entries of rnn.0.W."""
    slopes = at_entries(lambda p: {"J": loss(p)}, parameters,
                        {"J": np.ones(())},
                        places, method, h=h)["rnn.0.W"].value[0]
    return np.median(np.abs(slopes / by_hand.reshape(-1) - 1)) + 1e-17


def central_in_float32(h):
    """The same by a loop, all numbers float32."""
    small = {name: value.astype(np.float32)
             for name, value in parameters.items()}
    slopes = np.zeros(by_hand.size)
    for k in places["rnn.0.W"]:
        sides = []
        for step in (h, -h):
            moved = small["rnn.0.W"].copy()
            moved.reshape(-1)[k] += np.float32(step)
            sides.append(loss({**small, "rnn.0.W": moved}))
        slopes[k] = (sides[0] - sides[1]) / np.float32(2 * h)
    return np.median(np.abs(slopes / by_hand.reshape(-1) - 1)) + 1e-17


steps = 10.0 ** np.arange(-20, 0.5, 1.0)
coarse = 10.0 ** np.arange(-7, 0.5, 1.0)
figure, axes = plt.subplots(figsize=(7.5, 4))
best = {}
for method, style in (("forward", "--"), ("central", "-"), ("complex", ":")):
    errors = np.array([error_of(method, h) for h in steps])
    best[method] = errors.min()
    axes.loglog(steps, errors, style,
                label=f"{method}: best {errors.min():.0e}", linewidth=2)
errors = np.array([central_in_float32(h) for h in coarse])
best["float32"] = errors.min()
axes.loglog(coarse, errors, "s-", markersize=4,
            label=f"central, float32: best {errors.min():.0e}")
axes.set(title="error of a numerical derivative against its step", xlabel="h",
         ylabel="median relative error", ylim=(1e-17, 1e3))
axes.invert_xaxis()
axes.legend(loc="center right")
plt.show()
assert (best["complex"] < 1e-13 < best["central"] < best["forward"]
        < best["float32"])

# %% [markdown]
# From left to right the steps get smaller. The error of a difference first falls, like the
# truncation error: with slope one for the forward difference, and two for the central one. Then it
# rises again with the rounding error: a V. The float32 curve rises so early that a gradient with an
# error of a tenth of a per cent can pass as right. The error of the complex step falls and stays
# low.
#
# ## The idea on one page
#
# `grads/check/simple.py` is a whole checker in fifty lines. The rate at which $L = \sum d \odot f$
# changes along a random direction $v$ is $\sum dx \odot v$ if $dx$ is its gradient. One direction
# tests all entries at once. The rate is computed by the complex step and by a central difference.

# %%
rng = np.random.default_rng(5)
W, x, d = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)


def layer(x):
    return np.tanh(W @ x)


da = d * (1 - layer(x) ** 2)
print("right:", simple.check(layer, x, W.T @ da, d))
print("the transpose forgotten:", simple.check(layer, x, W @ da, d))


def signed_square(x):
    return np.abs(x) * x


print("complex step", simple.complex_step(signed_square, x, np.ones(3)))
print("derivative  ", 2 * np.abs(x))
print("by simple.py:", simple.check(signed_square, x, 2 * np.abs(x) * d, d))
print("by check_gradients:",
      check_gradients(signed_square, [x], [2 * np.abs(x) * d],
                      upstream=d).verdict)

# %% [markdown]
# The complex step needs a function that computes with complex numbers and is analytic. `abs` of a
# complex number is its modulus, which is not analytic, so the complex step is half of the
# derivative here. The two methods disagree, so `simple.py` decides nothing. `check_gradients` runs
# the function on arrays whose `abs` is the analytic continuation of the real one. Its second method
# is more exact than a central difference: Ridders' extrapolation of four of them. Where the two
# disagree, its verdict is `undecided`, too. Never rely on one method.
#
# ## Kinks
#
# A ReLU has no derivative at zero. If the step is longer than the distance to that kink, a
# difference goes across it and returns a mean of the slopes on both sides.

# %%
def relu(v):
    return np.where(v.real > 0, v, 0.0).sum()


h = 10.0 ** np.arange(-9, 0.1, 0.25)
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3))
t = np.linspace(-1, 1, 201)
axes[0].plot(t, np.maximum(t, 0), color=GREY, linewidth=3)
axes[0].plot([-0.8, 0.8], [0, 0.8], color=ORANGE, marker="o")
axes[0].plot(0, 0, "o", color=BLUE)
axes[0].set(title="a central difference across a kink has slope 1/2",
            xlabel="x", ylabel="relu(x)")
for distance, style in ((0.0, "-"), (1e-6, "--"), (1e-3, ":")):
    ahead, behind = (np.maximum(distance + side * h, 0) for side in (1, -1))
    slopes = (ahead - behind) / (2 * h)
    axes[1].semilogx(h, slopes, style, label=f"x = {distance:g}", linewidth=2)
axes[1].set(title="its slope, for three distances from the kink", xlabel="h",
            ylim=(0.4, 1.1))
axes[1].legend()
plt.show()
print(find_kink(lambda p: {"f": relu(p["v"])}, {"v": np.zeros(1)}, {"f": 1.0},
                "v", 0))
print(check_gradients(relu, [np.array([-1.0, 0.0, 2.0])],
                      [np.array([0.0, 0.0, 1.0])]).remarks())

# %% [markdown]
# The checker takes differences on both sides, finds that the slope jumps, and reports the entry as
# inconclusive. The gradient is not wrong there: any slope between the two is a valid subgradient.
#
# The stepper checks every intermediate gradient by these methods, not only those of the weights:
#
# In the stepper: `grads explore lstm`, at `dT_h = da @ h_prev.T`.
#
# ## A backward pass to break
#
# The function to check has three steps of a vanilla unit, from $\mathbf{h}_0 = \mathbf{0}$, and a
# softmax on top. Its output is $\mathbf{p}$. Seven mistakes can be switched on in its backward
# pass.

# %%
BUGS = ("zeros", "W_hh not transposed", "softmax: second term missing",
        "tanh' missing", "last step only", "off by 0.1 %", "NaN")


def forward(W_xh, W_hh, W_hy, x):
    T = np.hstack([W_xh, W_hh])
    h = [np.zeros((len(T), 1))]
    for t in range(len(x)):
        h.append(rnn.rnn(x[t], h[-1], T))                     # (2.3)
    p = softmax(W_hy @ h[-1])                                 # (2.5)
    return p, (W_xh, W_hh, W_hy, x, h, p)


def make_backward(bug=""):
    """The backward of `forward`, or a wrong one."""
    def backward(dp, cache):
        W_xh, W_hh, W_hy, x, h, p = cache
        ds = p * dp if bug == BUGS[2] else softmax_grad(p, dp)
        dW_xh, dW_hh = np.zeros_like(W_xh), np.zeros_like(W_hh)
        dx = np.zeros_like(x)
        dh = W_hy.T @ ds                                      # (2.22)
        for t in range(len(x) - 1, -1, -1):
            slope = tanh_prime(W_xh @ x[t] + W_hh @ h[t])
            da = dh if bug == BUGS[3] else slope * dh
            dW_xh += da @ x[t].T                              # (2.29)
            if bug != BUGS[4] or t == len(x) - 1:
                dW_hh += da @ h[t].T                          # (2.30)
            dx[t] = W_xh.T @ da                               # (2.27)
            dh = (W_hh if bug == BUGS[1] else W_hh.T) @ da    # (2.28)
        gradients = [dW_xh, dW_hh, ds @ h[-1].T, dx]
        factor = {BUGS[0]: 0.0, BUGS[5]: 1.001, BUGS[6]: np.nan}.get(bug, 1.0)
        return [factor * d for d in gradients]
    return backward


def draw(steps=3, scale=1.0):
    rng = np.random.default_rng(2)
    shapes = ((4, 3), (4, 4), (5, 4), (steps, 3, 1))
    return [rng.normal(size=shape) * (scale if k < 3 else 1)
            for k, shape in enumerate(shapes)]


check_pair(forward, make_backward(), draw()).raise_if_wrong()

# %% [markdown]
# ## Eight checks
#
# Here is a simple checker, as many have written it: a loop over entries, a central difference, a
# comparison. Its weak points are its arguments: the inputs, the upstream gradient, the comparison.

# %%
def naive(backward, inputs, upstream, close, dtype=np.float64, h=1e-5):
    """Whether a backward passes: `close(analytic, numeric)` for all inputs."""
    inputs = [value.astype(dtype) for value in inputs]
    p, cache = forward(*inputs)
    d_out = np.asarray(upstream(p.shape), dtype)
    analytic = backward(d_out, cache)
    for number, value in enumerate(inputs):
        numeric = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            sides = []
            for step in (h, -h):
                moved = [other.copy() for other in inputs]
                moved[number][index] += dtype(step)
                sides.append((d_out * forward(*moved)[0]).astype(dtype).sum())
            numeric[index] = (sides[0] - sides[1]) / dtype(2 * h)
        if not close(analytic[number], numeric):
            return False
    return True


def normal(shape):
    return np.random.default_rng(3).normal(size=shape)


def shapes_only(backward):
    inputs = draw()
    p, cache = forward(*inputs)
    return ([d.shape for d in backward(normal(p.shape), cache)]
            == [a.shape for a in inputs])


def against_itself(backward):
    p, cache = forward(*draw())
    # "golden values", from the code to be tested
    stored = backward(normal(p.shape), cache)
    return all(np.array_equal(a, b, equal_nan=True)
               for a, b in zip(backward(normal(p.shape), cache), stored,
                               strict=True))


def strictly(a, n):
    return np.allclose(a, n, rtol=1e-5, atol=1e-9)


CHECKS = {
    "shapes only": shapes_only,
    "against itself": against_itself,
    "sum of the outputs": lambda b: naive(b, draw(), np.ones, strictly),
    "one time step": lambda b: naive(b, draw(steps=1), normal, strictly),
    "small weights,\natol 1e-5": lambda b: naive(
        b, draw(scale=1e-3), normal, lambda a, n: np.allclose(a, n, atol=1e-5)),
    "float32, 1 %": lambda b: naive(
        b, draw(), normal,
        lambda a, n: np.allclose(a, n, rtol=0.01, atol=1e-3), np.float32, 1e-2),
    "fail if error > 1e-5": lambda b: naive(
        b, draw(), normal, lambda a, n: not (np.abs(a - n) > 1e-5).any()),
    "check_pair": lambda b: check_pair(forward, b, draw()).ok,
}
# the right one passes them all
assert all(check(make_backward()) for check in CHECKS.values())
caught = np.array([[not check(make_backward(bug)) for check in CHECKS.values()]
                   for bug in BUGS])

figure, axes = plt.subplots(figsize=(9.5, 3.2))
heat_map(axes, caught, "which check catches which mistake", BUGS, list(CHECKS),
         signed=False, numbers="", top=2)
for (i, j), is_caught in np.ndenumerate(caught):
    axes.text(j, i, "caught" if is_caught else "passed", ha="center",
              va="center", fontsize=8, weight="bold" if is_caught else "normal",
              color="black" if is_caught else "#777777")
axes.tick_params(axis="x", labelsize=7.5)
plt.show()
assert caught[:, -1].all() and not caught[:, :2].any()

# %% [markdown]
# By columns:
#
# - **Shapes only.** Zeros have the right shape. So has $\mathbf{W}_{hh}$ without its transpose.
# - **Against itself.** Stored results of the code under test show that nothing has changed since.
#   They do not show that it was right. The second method must be independent of the first: a
#   numerical derivative, another framework, a sum written out by hand.
# - **The sum of the outputs.** Probabilities always sum to one, so the gradient of their
#   sum is zero, and a backward that returns zeros passes. Give every output its own random
#   weight. `check_pair` does, and also checks each output alone.
# - **One time step.** With $\mathbf{h}_0 = \mathbf{0}$ the gradient of $\mathbf{W}_{hh}$ is zero,
#   and nothing flows back in time. Mistakes in the recurrence show only with several steps.
# - **Small weights and an absolute tolerance.** Near zero tanh is linear, so $\tanh' = 1$. And a
#   gradient of $10^{-6}$ is close to anything else that small.
# - **float32.** Its best difference has about three correct digits, and the tolerance here is 1 %.
#   A mistake of 0.1 % passes.
# - **Fail if the error is larger.** NaN is not larger than anything. Write the condition of success
#   instead: `error <= tolerance` is false for NaN.
#
# `check_pair` avoids each of these. But it cannot check what its inputs do not reach. Give it
# ragged batches, two layers, and a step more than you think you need.
#
# ## Exercise 1: the bottom of the V
#
# You differentiate $\sin$ near $x = 1$ in float64 by a central difference. Roughly which step $h$
# is the best? Do not try them all: set truncation and rounding errors equal.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="h^2 / 6 = eps / h, up to factors of about one, with eps = "
          "2e-16", mistakes=MISTAKES[1], form=NUMBER)
def check_exercise_1(answer):
    x = np.linspace(0.9, 1.1, 200)

    def error(h):
        return np.abs((np.sin(x + h) - np.sin(x - h)) / (2 * h)
                      - np.cos(x)).mean()

    best = min(map(error, 10.0 ** np.arange(-12, 0, 0.25)))
    measured = error(float(answer))
    return (None if measured < 5 * best
            else f"the error is {measured:.1e}, the best possible {best:.1e}")


# %%
# Your turn
answer_1 = None
check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
solution_1 = (6 * 2.0**-52) ** (1 / 3)
print(f"{solution_1:.1e}")
check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: hide the mistake
#
# Fool a check yourself. Choose a (4, 4) matrix $\mathbf{W}_{hh}$ that is not diagonal, and with
# which the second bug, the missing transpose, gives the right gradients. (You cannot fool
# `check_pair` like this: if it gets such a matrix, it also tries another one.)

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="for which matrices does a transpose change nothing?",
          mistakes=MISTAKES[2], form="a (4, 4) matrix")
def check_exercise_2(answer):
    W_hh = np.array(answer, float)
    if W_hh.shape != (4, 4) or np.array_equal(W_hh, np.diag(np.diag(W_hh))):
        return ("expected a (4, 4) matrix with a nonzero entry outside its "
                "diagonal")
    W_xh, _, W_hy, x = draw()
    inputs = {"W_xh": W_xh, "W_hh": W_hh, "W_hy": W_hy, "x": x}
    y, cache = forward(*inputs.values())
    upstream = np.random.default_rng(2).normal(size=y.shape)
    gradients = make_backward(BUGS[1])(upstream, cache)
    report = check_gradients(lambda p: np.sum(upstream * forward(**p)[0]),
                             inputs, dict(zip(inputs, gradients, strict=True)))
    return None if report.ok else f"the mistake was found: {verdict(report)}"


# %%
# Your turn
answer_2 = None
check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
half = np.random.default_rng(0).normal(size=(4, 4))
# symmetric. So are the identity, zeros and ones: do not test with such weights
solution_2 = half + half.T
check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: make a function analytic
#
# `length` is right for real vectors, but `simple.complex_step` gives a wrong derivative of it.
# Rewrite `length` so that the derivative is right.

# %%
def length(v):
    return np.sqrt((np.abs(v) ** 2).sum())

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="the square of a real number needs no absolute value. "
          "np.linalg.norm takes one", mistakes=MISTAKES[3])
def check_exercise_3(answer):
    v = np.array([1.0, -2.0, 2.0])
    if fault := difference(answer(v), length(v), "the length"):
        return fault
    slopes = [simple.complex_step(answer, v, unit) for unit in np.eye(3)]
    return difference(np.array(slopes), v / 3, "the complex step by hand")


# %%
# Your turn
def answer_3(v):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(v):
    return np.sqrt((v * v).sum())


check_exercise_3(solution_3, "Solution")
