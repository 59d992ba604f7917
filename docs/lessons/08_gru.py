# %% [markdown]
# # 8. The gated unit: a memory without a cell
#
# Bahdanau et al. (2015), Appendix A.2.1. You will go through a GRU's gradient line by line, follow
# the four ways in which it flows back in time, and see why the GRU of this paper is not the GRU of
# PyTorch.
#
# Beside this page: `grads/derivations/gru.py`, one equation per line. You need lesson 2.

# %%
import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, heat_map
from exercises import NUMBER, difference, exercise, verdict, wrong_form
from mistakes import GRU as MISTAKES

from grads.check import check_gradients, check_pair
from grads.derivations import gru, gru_after
from grads.derivations.calculus import sigm, sigm_prime, tanh_prime

# %% [markdown]
# ## Two gates, no cell
#
# An LSTM keeps its memory in $\mathbf{c}_t$ and shows a part of it as $\mathbf{h}_t$. The gated
# unit has one state for both. An *update gate* $\mathbf{z}$ says how much of this state is
# replaced. A *reset gate* $\mathbf{r}$ says how much of the old state the new value may look at:
#
# $$\mathbf{z} = \mathrm{sigm}(\mathbf{W}_z\mathbf{x} + \mathbf{U}_z\mathbf{h}_{i-1}) \qquad
#   \mathbf{r} = \mathrm{sigm}(\mathbf{W}_r\mathbf{x} + \mathbf{U}_r\mathbf{h}_{i-1})$$
# $$\tilde{\mathbf{h}} = \tanh(\mathbf{W}\mathbf{x} + \mathbf{U}(\mathbf{r} \circ
#   \mathbf{h}_{i-1})) \qquad \mathbf{h}_i = (1 - \mathbf{z}) \circ \mathbf{h}_{i-1} + \mathbf{z}
#   \circ \tilde{\mathbf{h}}$$
#
# Compare the last formula with the LSTM's $\mathbf{c}_t = \mathbf{f}_t \circ \mathbf{c}_{t-1} +
# \mathbf{i}_t \circ \hat{\mathbf{h}}_t$. It is the same, with $\mathbf{f} = 1 - \mathbf{z}$ and
# $\mathbf{i} = \mathbf{z}$: one gate does the work of two.

# %%
H, E = 6, 4
rng = np.random.default_rng(2)


def weights(scale=0.7, b_z=0.0):
    """A unit with random weights; b_z is the bias of its update gate."""
    W, W_z, W_r = rng.normal(size=(3, H, E)) * scale
    U, U_z, U_r = rng.normal(size=(3, H, H)) * scale
    return gru.Unit(W, W_z, W_r, U, U_z, U_r, np.zeros((H, 1)),
                    np.full((H, 1), b_z), np.zeros((H, 1)))


unit = weights()
x, h_prev = rng.normal(size=(E, 1)), rng.normal(size=(H, 1))
z = sigm(unit.W_z @ x + unit.U_z @ h_prev + unit.b_z)
r = sigm(unit.W_r @ x + unit.U_r @ h_prev + unit.b_r)
h_tilde = np.tanh(unit.W @ x + unit.U @ (r * h_prev) + unit.b)
h = (1 - z) * h_prev + z * h_tilde
assert np.allclose(h, gru.gru(x, h_prev, unit))

figure, axes = plt.subplots(figsize=(7, 2.2))
heat_map(axes, np.hstack([h_prev, r, z, h_tilde, h]).T,
         "one step; columns: the six units",
         ["h_prev", "r", "z", "h_tilde", "h"])
plt.show()

# %% [markdown]
# Read a column from the top. Where $z$ is close to zero, $h$ is the old state. Where $z$ is close
# to one, $h$ is the new value.
#
# ## Backward
#
# The last formula is a sum of two products, and $\mathbf{z}$ is a factor of both. Remark 3 of the
# thesis (a factor's gradient is the other factor times what comes back) gives
#
# $$d\mathbf{z} = (\tilde{\mathbf{h}} - \mathbf{h}_{i-1}) \circ d\mathbf{h} \qquad
#   d\tilde{\mathbf{h}} = \mathbf{z} \circ d\mathbf{h}$$
#
# Then go back through the three formulas with matrices by Lemma 1. With $d\mathbf{a} = \tanh' \circ
# d\tilde{\mathbf{h}}$ and $d\mathbf{m} = \mathbf{U}^\top d\mathbf{a}$, where $\mathbf{m} =
# \mathbf{r} \circ \mathbf{h}_{i-1}$:
#
# $$d\mathbf{r} = \mathbf{h}_{i-1} \circ d\mathbf{m} \qquad d\mathbf{a}_z = \mathrm{sigm}' \circ
#   d\mathbf{z} \qquad d\mathbf{a}_r = \mathrm{sigm}' \circ d\mathbf{r}$$
#
# The previous state is used in four places, so its gradient has four terms:
#
# $$d\mathbf{h}_{i-1} = (1 - \mathbf{z}) \circ d\mathbf{h} + \mathbf{r} \circ d\mathbf{m} +
#   \mathbf{U}_z^\top d\mathbf{a}_z + \mathbf{U}_r^\top d\mathbf{a}_r$$

# %%
def terms_of(dh, x, h_prev, unit):
    """The four terms of dh_prev."""
    a_z = unit.W_z @ x + unit.U_z @ h_prev + unit.b_z
    a_r = unit.W_r @ x + unit.U_r @ h_prev + unit.b_r
    z, r = sigm(a_z), sigm(a_r)
    a = unit.W @ x + unit.U @ (r * h_prev) + unit.b
    dm = unit.U.T @ (tanh_prime(a) * z * dh)
    da_z = sigm_prime(a_z) * (np.tanh(a) - h_prev) * dh
    da_r = sigm_prime(a_r) * h_prev * dm
    return {"kept, 1 - z": (1 - z) * dh, "reset, r": r * dm,
            "through z": unit.U_z.T @ da_z, "through r": unit.U_r.T @ da_r}


dh = rng.normal(size=(H, 1))
terms = terms_of(dh, x, h_prev, unit)
_, dh_prev, _ = gru.gru_grad(dh, x, h_prev, unit)
assert np.allclose(sum(terms.values()), dh_prev)
print(check_gradients(lambda h: gru.gru(x, h, unit), [h_prev], [dh_prev],
                      upstream=dh).verdict)
for name in terms:
    without = sum(value for other, value in terms.items() if other != name)
    report = check_gradients(lambda h: gru.gru(x, h, unit), [h_prev], [without],
                             upstream=dh)
    print(f"without {name:12} {report.verdict}")

# %% [markdown]
# Each of the four terms is needed: without any one of them the check fails. Here is the backward
# pass with its numbers, as a page that you can walk through:
#
# In the stepper: `grads explore gru`, at `dh_tilde = z * dh`.
#
# ## Which way does the gradient go?
#
# Run 40 steps, with a gradient at the last state only. Measure how large the four terms are at
# every step.

# %%
STEPS = 40
words = rng.normal(size=(STEPS, E, 1)) * 0.5


def shares(b_z):
    """The norm of each term at each step back, and that of their sum."""
    unit, h = weights(0.4, b_z), [np.zeros((H, 1))]
    for word in words:
        h.append(gru.gru(word, h[-1], unit))
    dh = np.full((H, 1), H**-0.5)
    sizes = []
    for t in range(STEPS, 0, -1):
        terms = terms_of(dh, words[t - 1], h[t - 1], unit)
        dh = sum(terms.values())
        sizes.append([*(np.linalg.norm(term) for term in terms.values()),
                      np.linalg.norm(dh)])
    return np.array(sizes)


figure, axes = plt.subplots(1, 2, figsize=(10, 3), sharey=True)
for place, b_z in zip(axes, (0.0, -4.0), strict=True):
    sizes = shares(b_z)
    for column, (name, color) in enumerate(zip(terms,
                                               (BLUE, ORANGE, GREEN, PURPLE),
                                               strict=True)):
        place.semilogy(range(1, STEPS + 1), sizes[:, column], color=color,
                       label=name)
    place.semilogy(range(1, STEPS + 1), sizes[:, -1], color=GREY,
                   linestyle="--", label="sum")
    place.set(title=f"bias of the update gate {b_z:g}", xlabel="steps back")
axes[0].set(ylabel="norm")
axes[1].legend()
plt.show()
assert shares(-4.0)[-1, -1] > 100 * shares(0.0)[-1, -1]

# %% [markdown]
# The first term has no matrix. A negative bias keeps the update gate nearly closed ($\mathbf{z}$
# near zero). Then the first term carries the gradient back, and it hardly shrinks from step to
# step. It is the forget gate's trick of lesson 2, with the sign reversed: a *negative* bias makes
# the memory long.
#
# ## Two units with the same name
#
# PyTorch, cuDNN, Keras and ONNX compute another GRU. It differs in two places (erratum 17):
#
# | | Bahdanau et al. | PyTorch and cuDNN |
# |---|---|---|
# | $\mathbf{z}$ weighs | the new value | the old state |
# | $\mathbf{r}$ multiplies | $\mathbf{h}_{i-1}$ | the product $\mathbf{U}\mathbf{h}_{i-1}$ |
#
# The first difference is a change of sign: $1 - \mathrm{sigm}(a) = \mathrm{sigm}(-a)$. So the
# weights of one unit give those of the other. The second is a different function. No weights make
# the two equal.

# %%
turned = unit._replace(W_z=-unit.W_z, U_z=-unit.U_z, b_z=-unit.b_z)
for name, W_r, U_r, b_r in (("as they are", unit.W_r, unit.U_r, unit.b_r),
                            ("with r = 1", 0 * unit.W_r, 0 * unit.U_r,
                             unit.b_r + 40)):
    ours = unit._replace(W_r=W_r, U_r=U_r, b_r=b_r)
    theirs = gru_after.UnitAfter(*turned._replace(W_r=W_r, U_r=U_r, b_r=b_r),
                                 np.zeros((H, 1)))
    apart = np.abs(gru.gru(x, h_prev, ours)
                   - gru_after.gru_after(x, h_prev, theirs)).max()
    print(f"the two units, {name}: largest difference {apart:.1e}")

# %% [markdown]
# Where the reset gate is open the two agree, once the sign is turned. Otherwise they do not. If you
# copy weights from one library to another and do not know this, the model runs, and translates
# badly.
#
# ## Exercise 1: the heart of the unit
#
# Given $d\mathbf{h}$, $\mathbf{z}$, $\tilde{\mathbf{h}}$ and $\mathbf{h}_{i-1}$, return
# $d\mathbf{z}$, $d\tilde{\mathbf{h}}$ and the first term of $d\mathbf{h}_{i-1}$.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="h = (1 - z) o h_prev + z o h_tilde has two products; z is a "
          "factor of both", mistakes=MISTAKES[1])
def check_exercise_1(answer):
    draw = np.random.default_rng(5)
    dh, z, h_tilde, h_prev = draw.uniform(0.1, 0.9, size=(4, H, 1))
    return difference(answer(dh, z, h_tilde, h_prev),
                      ((h_tilde - h_prev) * dh, z * dh, (1 - z) * dh))


# %%
# Your turn
def answer_1(dh, z, h_tilde, h_prev):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(dh, z, h_tilde, h_prev):
    return (h_tilde - h_prev) * dh, z * dh, (1 - z) * dh      # Remark 3


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: half after a hundred steps
#
# Let all weights be zero except the bias $b_z$ of the update gate. Which $b_z$ leaves half of the
# gradient after 100 steps? (In lesson 2 the LSTM's answer was about 5.)

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="(1 - z) ** 100 = 1 / 2, and z = sigm(b_z); solve for b_z",
          mistakes=MISTAKES[2], form=NUMBER)
def check_exercise_2(answer):
    left = float((1 - sigm(np.array(float(answer)))) ** 100)
    return (None if abs(left - 0.5) < 0.005
            else f"{left:.3g} of the gradient is left")


# %%
# Your turn
answer_2 = None
check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
z_half = 1 - 0.5 ** (1 / 100)
solution_2 = np.log(z_half / (1 - z_half))
print(f"b_z = {solution_2:.2f}: the bias of lesson 2 with its sign reversed, "
      "since 1 - z is f")
check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: the reset gate of PyTorch
#
# In PyTorch's unit the candidate reads $\mathbf{m} = \mathbf{r} \circ
# (\mathbf{U}\mathbf{h}_{i-1})$. You get $d\mathbf{m}$, and a cache: the tuple $(\mathbf{r},
# \mathbf{U}, \mathbf{h}_{i-1})$. Return $d\mathbf{r}$, $d\mathbf{U}$ and $d\mathbf{h}_{i-1}$.

# %%
def reset_after(r, U, h_prev):
    return r * (U @ h_prev), (r, U, h_prev)

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="m is a product of r and of v = U h_prev. First dr and dv, "
          "then Corollary 1 on v", mistakes=MISTAKES[3])
def check_exercise_3(answer):
    draw = np.random.default_rng(8)
    inputs = [draw.normal(size=shape) for shape in ((H, 1), (H, H), (H, 1))]
    result = answer(np.ones((H, 1)), tuple(inputs))
    if fault := wrong_form(result, tuple(inputs)):
        return fault
    return verdict(check_pair(reset_after, answer, inputs))


# %%
# Your turn
def answer_3(dm, cache):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(dm, cache):
    r, U, h_prev = cache
    dv = r * dm
    return (U @ h_prev) * dm, dv @ h_prev.T, U.T @ dv   # (2.17), (2.14), (2.13)


check_exercise_3(solution_3, "Solution")
