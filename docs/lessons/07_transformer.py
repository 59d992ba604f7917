# %% [markdown]
# # 7. The Transformer
#
# Nguyen, sections 1.2 and 3.3: Eqs. 1.7 to 1.15 and 3.2 to 3.6. A Transformer has no recurrence:
# attention alone connects the words, through layers of heads, residual connections and norms. You
# will go from one score to many heads, and take a norm's Jacobian apart. Then you will measure what
# changes if the norm stands before the sublayer instead of after it.
#
# Beside this page: `grads/derivations/multihead.py`, `norms.py`, `transformer.py`. To step through
# them: `grads walk attention-head`, `grads explore transformer`.

# %%
import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, GREY, ORANGE, heat_map
from exercises import HINT, difference, exercise, verdict, wrong_form
from mistakes import TRANSFORMER as MISTAKES

from grads.check import check_gradients, check_pair
from grads.derivations.multihead import (
    Head,
    head_forward,
    head_forward_grad,
    softmax_rows,
)
from grads.derivations.norms import (
    layer_norm,
    layer_norm_grad,
    layer_norm_jacobian,
    rms_norm_jacobian,
    scale_norm_jacobian,
)
from grads.derivations.transformer import PLACED, FeedForward
from nmt.data.batches import make_batch
from nmt.models.transformer import Transformer, TransformerConfig
from nmt.training.optimizers import Adam, gradient_scale

# %% [markdown]
# ## From the score to the head
#
# Lesson 5 had one query per step, $\mathbf{h}_t$, and used the encoder's states twice: the scores
# compared them with the query, and the context was their weighted mean. A head gives each word
# three vectors: a query, a key to be compared with queries, and a value to be averaged. A sentence
# is a matrix whose rows are words, so one product compares all queries with all keys (Eqs. 1.7,
# 1.8):
#
# $$\mathbf{Q} = \mathbf{Y}\mathbf{W}^Q \qquad \mathbf{K} = \mathbf{X}\mathbf{W}^K \qquad
#   \mathbf{V} = \mathbf{X}\mathbf{W}^V \qquad
#   \mathbf{H} = \mathrm{softmax}\Big(\frac{\mathbf{Q}\mathbf{K}^\top}{\sqrt{d_k}}\Big)\mathbf{V}$$
#
# Why the root? The product of two random vectors with $d_k$ entries of variance one has a standard
# deviation of $\sqrt{d_k}$. Without the root, the softmax of a wide head puts nearly all its weight
# on one key before anything is learned, and then its gradient is small:

# %%
rng = np.random.default_rng(7)
widths = (2, 4, 8, 16, 32, 64, 128, 256)
sharpest, slope = {}, {}
for scaled in (True, False):
    sharpest[scaled], slope[scaled] = [], []
    for d_k in widths:
        Q, K = rng.normal(size=(2, 200, d_k))
        A = softmax_rows(Q @ K[:10].T / (d_k**0.5 if scaled else 1.0))
        sharpest[scaled].append(A.max(axis=1).mean())
        # the Jacobian's trace
        slope[scaled].append((A * (1 - A)).sum(axis=1).mean())
figure, axes = plt.subplots(1, 2, figsize=(9, 2.8))
for place, values, title in ((axes[0], sharpest, "largest of ten weights"),
                             (axes[1], slope, "trace of softmax's Jacobian")):
    place.semilogx(widths, values[True], "o-", base=2,
                   label="divided by sqrt(d_k)")
    place.semilogx(widths, values[False], "o--", base=2, label="not divided")
    place.set(title=title, xlabel="d_k", ylim=(0, 1.02))
axes[0].legend()
plt.show()

# %% [markdown]
# ## One head, and the future
#
# A decoder's word must not see the words after it: they are what it has to predict. The scores of
# the future become minus infinity, and their weights zero. A weight of zero passes no gradient, so
# nothing else has to be masked on the way back:

# %%
T, d, d_k = 5, 6, 3
Y = rng.normal(size=(T, d))
head = Head(*rng.normal(scale=0.7, size=(3, d, d_k)),
            *rng.normal(scale=0.7, size=(2, 1, d_k)))
future = np.triu(np.ones((T, T), bool), 1)
nothing_dropped, dH = np.ones((T, T)), rng.normal(size=(T, d_k))


def forward(Y, W_Q, W_K, W_V, b_Q, b_V):
    head = Head(W_Q, W_K, W_V, b_Q, b_V)
    H, trace = head_forward(Y, Y, head, future, nothing_dropped)  # (1.7), (1.8)
    return H, (Y, head, trace)


def backward(dH, cache):
    Y, head, trace = cache
    dY, dX, d_head = head_forward_grad(dH, Y, Y, head, future, nothing_dropped,
                                       trace)
    return dY + dX, *d_head           # Y makes queries, keys and values


print(check_pair(forward, backward, [Y, *head]))
A = forward(Y, *head)[1][2].A
dA = dH @ (Y @ head.W_V + head.b_V).T
dE = A * (dA - (A * dA).sum(axis=1, keepdims=True))
figure, axes = plt.subplots(1, 2, figsize=(9, 2.8))
heat_map(axes[0], A, "A: how much word t attends to word s", range(1, T + 1),
         range(1, T + 1), signed=False, top=1.0)
heat_map(axes[1], dE, "dE: the gradient of the scores", range(1, T + 1),
         range(1, T + 1))
plt.show()
assert not A[future].any() and not dE[future].any()

# %% [markdown]
# Each row of $d\mathbf{E}$ sums to zero: what raises one weight lowers the others. A layer has
# several such heads, each with its own columns of the weights; $\mathbf{W}^O$ mixes them (Eq. 1.9).
# The kernel (`attention/multihead.py`) does all heads of all sentences in one batched product.
#
# Here is the scores' gradient in a whole Transformer, each of its heads drawn as a map:
#
# In the stepper: `grads explore transformer`, at
# `dE = A * dA - A * (A * dA).sum(axis=1, keepdims=True)`.
#
# ## A norm's Jacobian
#
# LayerNorm centres a vector and divides it by its deviation $s$. Every entry of $\mathbf{x}$ moves
# the mean and the deviation, and so every entry of the result. The whole derivative is a matrix:
#
# $$\hat{\mathbf{x}} = \frac{\mathbf{x} - \mu}{s} \qquad
#   \mathbf{J} = \frac{1}{s}\Big(\mathbf{I} - \tfrac{1}{d}\mathbf{1}\mathbf{1}^\top
#   - \tfrac{1}{d}\hat{\mathbf{x}}\hat{\mathbf{x}}^\top\Big) \qquad
#   d\mathbf{x} = \mathbf{J}^\top d\hat{\mathbf{x}}$$
#
# We compare three norms. The singular values of a norm's Jacobian say what becomes of a gradient:

# %%
x = rng.normal(size=(8, 1))
jacobians = {"LayerNorm": layer_norm_jacobian(x),
             "RMSNorm": rms_norm_jacobian(x),
             "ScaleNorm": scale_norm_jacobian(x)}
figure, axes = plt.subplots(1, 2, figsize=(9, 3), width_ratios=[1.3, 1])
heat_map(axes[0], jacobians["LayerNorm"], "J of LayerNorm", range(1, 9),
         range(1, 9))
for (name, J), style in zip(jacobians.items(), ("o-", "s--", "^:"),
                            strict=True):
    values = np.linalg.svd(J, compute_uv=False)
    axes[1].plot(range(1, 9), values, style, label=name)
    print(f"{name}: {sum(values > 1e-4)} of 8 directions pass, multiplied by "
          f"{values[0]:.3f}")
axes[1].set(title="singular values of J", xlabel="number", ylim=(0, None))
axes[1].legend()
plt.show()

# %% [markdown]
# A shift of all entries, and a stretching of $\mathbf{x}$, change nothing in LayerNorm's result:
# these two directions have singular value zero (nearly: there is an epsilon under the root).
# RMSNorm and ScaleNorm remove only the stretching. All other directions pass, divided by the size
# of $\mathbf{x}$: *a norm divides gradients by the size of its input*.
#
# ## Where the norm stands
#
# $$\text{PostNorm: } \mathbf{x}_{l+1} = N(\mathbf{x}_l + F(\mathbf{x}_l)) \quad (3.3) \qquad
#   \text{PreNorm: } \mathbf{x}_{l+1} = \mathbf{x}_l + F(N(\mathbf{x}_l)) \quad (3.4)$$
#
# On the way back PreNorm passes on the gradient from above unchanged, and adds what comes through
# the sublayer. PostNorm sends the whole gradient through the norm's Jacobian, in every sublayer:
#
# $$d\mathbf{x}_l = d\mathbf{x}_{l+1} + \mathbf{J}_N^\top\mathbf{J}_F^\top d\mathbf{x}_{l+1}
#   \qquad \text{against} \qquad
#   d\mathbf{x}_l = (\mathbf{I} + \mathbf{J}_F^\top)\,\mathbf{J}_N^\top\,d\mathbf{x}_{l+1}$$
#
# We go forward and back through thirty feed-forward sublayers with random weights, by the
# derivation. The gradient at the top has norm one:

# %%
def flow(placed, depth, seed, d=24, T=3):
    """The norm of the gradient below each sublayer, from the top."""
    draw = np.random.default_rng(seed)
    forward, grad = PLACED[placed]
    w_N, x = (np.ones((d, 1)), np.zeros((d, 1))), draw.normal(size=(T, d))
    weights, inputs, kept = [], [], []
    for _ in range(depth):
        W_1, W_2 = draw.normal(scale=d**-0.5, size=(2, d, d))
        weights.append(FeedForward(2**0.5 * W_1, np.zeros((1, d)), W_2,
                                   np.zeros((1, d))))
        inputs.append(x)
        x, cache = forward("feed_forward", x, weights[-1], {}, "layer", w_N)
        kept.append(cache)
    dx = draw.normal(size=(T, d))
    dx, norms = dx / np.linalg.norm(dx), [1.0]
    for l in range(depth - 1, -1, -1):
        dx, *_ = grad("feed_forward", dx, inputs[l], weights[l], {}, "layer",
                      w_N, kept[l])
        norms.append(np.linalg.norm(dx))
    return norms


DEPTH = 30
figure, axes = plt.subplots(figsize=(6.5, 2.8))
flows = {placed: np.mean([flow(placed, DEPTH, seed) for seed in range(3)],
                         axis=0) for placed in PLACED}
for (placed, norms), colour in zip(flows.items(), (BLUE, ORANGE), strict=True):
    axes.semilogy(norms, color=colour,
                  label={"pre": "PreNorm", "post": "PostNorm"}[placed])
axes.set(title="norm of the gradient, from the top down",
         xlabel="sublayers passed", ylabel="norm")
axes.legend()
plt.show()
for placed, norms in flows.items():
    print(f"{placed}: {norms[-1]:.3g} after {DEPTH} sublayers")

# %% [markdown]
# In PostNorm the sum of $\mathbf{x}$ and the sublayer's result has about twice the variance of
# $\mathbf{x}$, so each norm divides the gradient by about 1.4. The gradient through the sublayer
# makes up for this, but only on average. In PreNorm the gradient of $\mathbf{x}_l$ is never
# divided. Instead $\mathbf{x}_l$ itself grows with depth, which is why one more norm stands on top
# of the encoder and of the decoder.
#
# ## In a whole model
#
# Take untrained Transformers of this project, with six layers. We compare the gradients of
# $\mathbf{W}_2$ in the decoder's layers, for the loss of 32 sentences:

# %%
def sentences(rng, number):
    """Pairs of equal sequences of 2 to 8 digits (ids 2 to 11)."""
    return [(x, x) for x in (rng.integers(2, 12, size=n).tolist()
                             for n in rng.integers(2, 9, number))]


def transformer(pre_norm, layers=6):
    """A small model of the digits."""
    return Transformer(TransformerConfig(1, layers, 32, 64, 4,
                                         pre_norm=pre_norm, dropout=0.0,
                                         initialisation="xavier"), 12, 12)


NAMES = {True: "PreNorm", False: "PostNorm"}
batch = make_batch(sentences(np.random.default_rng(1), 32), range(32), False)
figure, axes = plt.subplots(figsize=(6.5, 2.8))
by_layer = {}
for pre_norm, name in NAMES.items():
    norms = []
    for seed in range(3):
        model = transformer(pre_norm)
        p = model.initial_parameters(np.random.default_rng(seed))
        d = model.backward(model.loss(p, batch)[1])
        norms.append([np.linalg.norm(d[f"decoder.{l}.feed_forward.W_2"])
                      for l in range(6)])
    by_layer[name] = np.mean(norms, axis=0)
    axes.plot(range(1, 7), by_layer[name] / by_layer[name][-1], "o-",
              label=name)
    print(f"{name}: lowest layer {by_layer[name][0] / by_layer[name][-1]:.2f} "
          "of the highest")
axes.set(title="gradient of W_2 by layer, relative to the top",
         xlabel="layer of the decoder", ylim=(0, None))
axes.legend()
plt.show()

# %% [markdown]
# What does this do to training? We leave out the warm-up: the first update has the full learning
# rate.

# %%
UPDATES = 120
figure, axes = plt.subplots(figsize=(6.5, 2.8))
last = {}
for (pre_norm, name), colour in zip(NAMES.items(), (BLUE, ORANGE), strict=True):
    model, draw = transformer(pre_norm), np.random.default_rng(3)
    p = model.initial_parameters(np.random.default_rng(0))
    adam, losses = Adam(0.003), []
    for _ in range(UPDATES):
        batch = make_batch(sentences(draw, 32), range(32), False)
        loss, cache = model.loss(p, batch)
        tokens = int(batch.target.lengths.sum())
        gradients = model.backward(cache)
        scale, _ = gradient_scale(gradients, tokens, 1.0)
        adam.update(p, gradients, scale)
        losses.append(float(loss) / tokens)
    last[name] = np.mean(losses[-20:])
    axes.plot(losses, color=colour, label=name)
    print(f"{name}: {last[name]:.2f} nats a digit over the last 20 updates")
axes.axhline(np.log(10), color=GREY, linewidth=0.8)
axes.text(UPDATES, np.log(10) + 0.05, "guessing", ha="right", fontsize=8)
axes.set(title="no warm-up, six layers", xlabel="updates",
         ylabel="nats a digit", ylim=(0, None))
axes.legend()
plt.show()

# %% [markdown]
# This is one rate, one seed and one small task: not a law. Nguyen's Tables 3.12 and 3.15 have the
# whole experiment. With Xavier's initial weights PostNorm fails with two of three warm-up lengths.
# Without warm-up it fails from five layers on. PreNorm learns in all these cases.

# %% [markdown]
# ## Exercise 1: what must not be seen
#
# Write the mask of a decoder's self-attention: (T, T), True where row $t$ must not attend to column
# $s$. A word attends to itself.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="row t is the word that looks, column s the word that it "
          "looks at. Hide the columns after t", mistakes=MISTAKES[1])
def check_exercise_1(answer):
    for T in (5, 2, 1):
        result = answer(T)
        if np.shape(result) == (T, T) and np.asarray(result).dtype != bool:
            return (f"expected True and False, got {np.asarray(result).dtype}"
                    f"{HINT}compare numbers, or make the array with bool")
        if fault := difference(result,
                               np.array([[s > t for s in range(T)]
                                         for t in range(T)])):
            return fault
    return None


# %%
# Your turn
def answer_1(T):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(T):
    return np.arange(T) > np.arange(T)[:, None]


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: back through LayerNorm, without the matrix
#
# $\mathbf{J}$ has $d^2$ entries, and a kernel must not build it. You get $\hat{\mathbf{x}}$, (d,
# 1), the number $s$, and $d\hat{\mathbf{x}}$, (d, 1). Return $d\mathbf{x}$ with means over the $d$
# entries in place of the matrix.

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="multiply J by dx_hat term by term: 11'/d makes the mean of "
          "dx_hat, and x_hat x_hat'/d makes x_hat times the mean of x_hat * "
          "dx_hat", mistakes=MISTAKES[2])
def check_exercise_2(answer):
    x, dy = np.random.default_rng(6).normal(size=(2, 7, 1))
    z = x - x.mean()
    s = np.sqrt((z * z).mean() + 1e-5)
    result = answer(z / s, s, dy)
    if fault := wrong_form(result, x, "dx"):
        return fault
    return verdict(check_gradients(lambda x: layer_norm(x, 1.0, 0.0), [x],
                                   [result], upstream=dy))


# %%
# Your turn
def answer_2(x_hat, s, dx_hat):
    return None


check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
def solution_2(x_hat, s, dx_hat):
    return (dx_hat - dx_hat.mean() - x_hat * (x_hat * dx_hat).mean()) / s


check_exercise_2(solution_2, "Solution")
column, ones = rng.normal(size=(6, 1)), np.ones((6, 1))
z = column - column.mean()
s = np.sqrt((z * z).mean() + 1e-5)
literal = layer_norm_grad(column, column, ones, 0 * ones)[0]
assert np.allclose(solution_2(z / s, s, column), literal)

# %% [markdown]
# ## Exercise 3: queries and keys
#
# Given $d\mathbf{E}$ (T, S), $\mathbf{Q}$ (T, d_k) and $\mathbf{K}$ (S, d_k), return
# $d\mathbf{Q}$ and $d\mathbf{K}$ of $\mathbf{E} = \mathbf{Q}\mathbf{K}^\top / \sqrt{d_k}$.

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="E is a product: each factor's gradient is dE times the "
          "other. And the root?", mistakes=MISTAKES[3])
def check_exercise_3(answer):
    draw = np.random.default_rng(8)
    Q, K, dE = (draw.normal(size=shape) for shape in ((3, 4), (5, 4), (3, 5)))
    result = answer(dE, Q, K)
    if fault := difference(result, (dE @ K / 2, dE.T @ Q / 2)):
        return fault
    return verdict(check_gradients(lambda Q, K: Q @ K.T / 2, [Q, K],
                                   list(result), upstream=dE))


# %%
# Your turn
def answer_3(dE, Q, K):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(dE, Q, K):
    return dE @ K / Q.shape[1] ** 0.5, dE.T @ Q / Q.shape[1] ** 0.5


check_exercise_3(solution_3, "Solution")
