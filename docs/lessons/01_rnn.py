# %% [markdown]
# # 1. A recurrent network, and its gradient through time
#
# Luong's thesis, sections 2.1 and 2.2: Eqs. 2.1 to 2.30 and Algorithm 1. By the end you will have
# derived the backward pass of a recurrent language model, verified it, trained with it, and
# measured how far a word's influence reaches.
#
# Open `grads/derivations/rnn.py` beside this page. It has the equations one per line, with their
# numbers. Vectors are columns, $d\mathbf{h}$ is the gradient of the loss with respect to
# $\mathbf{h}$ and has its shape, and $\circ$ multiplies element by element.

# %%
import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, GREY, ORANGE, heat_map
from exercises import NUMBER, exercise, verdict, wrong_form
from mistakes import RNN as MISTAKES

from grads.check import check_gradients, check_pair
from grads.derivations import calculus, rnn
from grads.derivations.calculus import tanh_prime
from nmt.data.vocabulary import Vocabulary

# %% [markdown]
# ## A language of six sentences
#
# A language model gives a sentence the probability
#
# $$p(y) = \prod_{i=1}^{m} p(y_i \mid y_{<i}) \qquad (2.1)$$
#
# Our language has only six sentences. In each, the verb agrees with the first noun, which stands up
# to four words before the verb. So the model has to remember that noun.

# %%
SENTENCES = [f"the {noun}{place} {verb}".split()
             for noun, verb in (("cat", "sleeps"), ("cats", "sleep"))
             for place in ("", " on the mat", " on the mats")]
vocabulary = Vocabulary.build(SENTENCES)
V, E, H = len(vocabulary), 4, 8


def example(words):
    """Ids of the words read, x (</s> first), and of the next, y (</s> last)."""
    ids = vocabulary.ids(words)
    return [1, *ids], [*ids, 1]


for sentence in SENTENCES:
    print(" ".join(sentence))
x, y = example(SENTENCES[-1])
names_in, names_out = vocabulary.tokens(x), vocabulary.tokens(y)

# %% [markdown]
# ## Forward
#
# $$\mathbf{h}_t = \sigma(\mathbf{W}_{xh}\mathbf{x}_t + \mathbf{W}_{hh}\mathbf{h}_{t-1})
#   \quad (2.3) \qquad
#   \mathbf{s}_t = \mathbf{W}_{hy}\mathbf{h}_t \quad (2.4) \qquad
#   \mathbf{p}_t = \mathrm{softmax}(\mathbf{s}_t) \quad (2.5)$$
#
# $\sigma$ is tanh here, $\mathbf{h}_0 = \mathbf{0}$, and $\mathbf{x}_t$ is the word's row of the
# embedding matrix `W_e`. The same weights are used at every step. `T` is
# $\mathbf{T}_{rnn} = [\mathbf{W}_{xh}\ \mathbf{W}_{hh}]$. The loss sums over words:
#
# $$J = \sum_t l_t, \qquad l_t = -\log \mathbf{p}_t(y_t) \qquad (2.8)$$

# %%
rng = np.random.default_rng(3)
parameters = {"W_e": rng.normal(size=(V, E)),
              "T": rng.normal(size=(H, E + H)) * 0.5,
              "W_hy": rng.normal(size=(V, H)) * 0.5}
J, trace = rnn.forward(parameters, x, y)

h = np.zeros((H, 1))                                          # the same by hand
W_xh, W_hh = np.split(parameters["T"], [E], axis=1)
for t, word in enumerate(x, 1):
    h = np.tanh(W_xh @ parameters["W_e"][word][:, None] + W_hh @ h)  # (2.3)
    assert np.allclose(h, trace.h[t])
print(f"loss {J:.3f} nats over {len(x)} words; with uniform p: "
      f"{len(x) * np.log(V):.3f}")

# %% [markdown]
# ## Backward through the prediction
#
# Write the loss of one word as a function of its scores and differentiate:
#
# $$l_t = \log \sum_{y'} e^{\mathbf{s}_t(y')} - \mathbf{s}_t(y_t) \quad (2.19)
#   \qquad\Longrightarrow\qquad
#   d\mathbf{s}_t = \mathbf{p}_t - \mathbf{1}_{y_t} \quad (2.21)$$
#
# Descent moves against the gradient. So it raises the right word's score in proportion to
# $1 - \mathbf{p}_t(y_t)$, and lowers each wrong word's score in proportion to its probability.

# %%
t = 3
ds = trace.p[t] - calculus.one_hot(y[t - 1], V)               # (2.21)
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
words = vocabulary.words
axes[0].barh(words, trace.p[t][:, 0], color=GREY)
axes[0].set(title=f"p_{t}, after reading '{' '.join(names_in[1:t])}'",
            xlabel="probability")
axes[1].barh(words, ds[:, 0],
             color=[ORANGE if d > 0 else BLUE for d in ds[:, 0]])
axes[1].set(title=f"ds_{t} = p_{t} - 1_y for y = '{names_out[t - 1]}'",
            xlabel="gradient")
axes[1].axvline(0, color="black", linewidth=0.8)
axes[0].invert_yaxis()
plt.show()

# %% [markdown]
# Algorithm 1 prints this line as $\mathbf{1}_{y_t} - \mathbf{p}_t$, with the opposite sign (erratum
# 1 in `docs/errata.md`). Which is right? `check_gradients` differentiates the function numerically
# and compares.

# %%
def loss_of_scores(s):
    return -np.log(calculus.softmax(s)[y[t - 1], 0])


s = parameters["W_hy"] @ trace.h[t]
print(check_gradients(loss_of_scores, [s], [ds]).summary())
print(check_gradients(loss_of_scores, [s], [-ds]).wrong[0].hints[0])

# %% [markdown]
# ## Lemma 1
#
# All other gradients follow from one small result. Let $\mathbf{v} = f(\mathbf{W}\mathbf{h})$ and
# let $d\mathbf{v}$ be known. Put $\mathbf{z} = \mathbf{W}\mathbf{h}$. Each $z_i$ reaches the loss
# through $v_i$ alone, so $dz_i = f'(z_i)\,dv_i$. Each $h_j$ reaches the loss through every $z_i$,
# where its weight is $W_{ij}$. Each $W_{ij}$ reaches the loss through $z_i$ alone, where its factor
# is $h_j$. Hence
#
# $$d\mathbf{h} = \mathbf{W}^\top (f'(\mathbf{W}\mathbf{h}) \circ d\mathbf{v}) \quad (2.11)
#   \qquad
#   d\mathbf{W} = (f'(\mathbf{W}\mathbf{h}) \circ d\mathbf{v})\, \mathbf{h}^\top \quad (2.12)$$
#
# To go back through a matrix, multiply by its transpose. The gradient of a matrix is an outer
# product of two vectors, its output's gradient and its input. With $f$ the identity this is
# Corollary 1 (Eqs. 2.13 and 2.14), which gives the gradients of the prediction layer:
# $d\mathbf{h}_t = \mathbf{W}_{hy}^\top d\mathbf{s}_t$ (2.22) and
# $d\mathbf{W}_{hy} = d\mathbf{s}_t \mathbf{h}_t^\top$ (2.23).

# %%
def tanh_layer(W, h):
    return np.tanh(W @ h), (W, h)


def tanh_layer_backward(dv, cache):
    W, h = cache
    dh, dW = calculus.lemma_1(W, h, dv, tanh_prime)
    return dW, dh


inputs = [rng.normal(size=(3, 2)), rng.normal(size=(2, 1))]
print(check_pair(tanh_layer, tanh_layer_backward, inputs))

# %% [markdown]
# ## Backward through time
#
# Lemma 1 on $\mathbf{h}_t = \sigma(\mathbf{T}_{rnn}\mathbf{z}_t)$ with
# $\mathbf{z}_t = [\mathbf{x}_t; \mathbf{h}_{t-1}]$ (2.24) gives Eqs. 2.25 to 2.30. Put
# $d\mathbf{a}_t = \sigma'(\mathbf{T}_{rnn}\mathbf{z}_t) \circ d\mathbf{h}_t$; then
#
# $$d\mathbf{x}_t = \mathbf{W}_{xh}^\top d\mathbf{a}_t \quad
#   d\mathbf{h}_{t-1} = \mathbf{W}_{hh}^\top d\mathbf{a}_t \quad
#   d\mathbf{W}_{xh} = d\mathbf{a}_t \mathbf{x}_t^\top \quad
#   d\mathbf{W}_{hh} = d\mathbf{a}_t \mathbf{h}_{t-1}^\top$$
#
# Two things make this *backpropagation through time*. First, $\mathbf{h}_t$ is used twice, for the
# prediction at $t$ and for the state at $t+1$, so its gradient has two parts. Line 4 of Algorithm 1
# adds them: the vertical part $\mathbf{W}_{hy}^\top d\mathbf{s}_t$, and the recurrent part, which
# line 8 computed at step $t+1$. Second, a weight is used at every step, so its gradient is a
# sum over steps (lines 3, 5 and 6).

# %%
dh = {len(x): np.zeros((H, 1))}
dW_hh, vertical = {}, {}
for t in range(len(x), 0, -1):                                # line 1
    vertical[t], _, _ = rnn.predict_grad(y[t - 1], trace.p[t], trace.h[t],
                                         parameters["W_hy"])
    dh[t] = dh[t] + vertical[t]                               # line 4
    dh[t - 1], _, dT, _ = rnn.rnn_grad(dh[t], trace.x[t], trace.h[t - 1],
                                       parameters["T"])
    dW_hh[t] = dT[:, E:]                                      # line 6, one term

gradients, _ = rnn.backward(parameters, x, y, trace)        # all of Algorithm 1
assert np.allclose(sum(dW_hh.values()), gradients["T"][:, E:])
print(check_gradients(lambda p: rnn.forward(p, x, y)[0], parameters, gradients))

# %% [markdown]
# The last column is the verdict: the gradient of every parameter is right, to about fourteen
# digits. Lesson 3 explains how the checker finds that out. The next figure shows the terms of
# $d\mathbf{W}_{hh}$. Find the one that is exactly zero, and keep it in mind for exercise 2.

# %%
figure, axes = plt.subplots(1, len(x) + 1, figsize=(11, 1.9), sharey=True)
top = max(np.abs(term).max() for term in dW_hh.values())
for t, place in zip(range(1, len(x) + 1), axes, strict=False):
    heat_map(place, dW_hh[t], f"t = {t}\n{names_in[t - 1]}", top=top,
             numbers="")
heat_map(axes[-1], sum(dW_hh.values()), "their sum\ndW_hh", top=top, numbers="")
plt.show()

# %% [markdown]
# Here is line 4 with numbers: the two parts of the gradient, and their sum.
#
# In the stepper: `grads explore rnn`, at `dh[t] = dh[t] + d_vertical`.
#
# ## Gradient descent
#
# Each iteration computes $\theta \leftarrow \theta - \eta \nabla J(\theta)$ (2.9). $J$ is the sum
# over all six sentences (2.7), and Algorithm 1 gives its gradient. How low can the loss get? A
# perfect model gives each sentence the probability $1/6$, so the mean loss of a sentence is at
# least $\log 6$ nats.

# %%
def descend(parameters, iterations=300, eta=0.03):
    """The parameters and the loss per sentence, before each iteration."""
    history, losses = [parameters], []
    for _ in range(iterations):
        total, step = 0.0, dict.fromkeys(parameters, 0.0)
        for words in SENTENCES:
            x, y = example(words)
            J, trace = rnn.forward(history[-1], x, y)
            gradients, _ = rnn.backward(history[-1], x, y, trace)
            total += J                                        # (2.7)
            step = {name: step[name] + gradients[name] for name in step}
        history.append({name: history[-1][name] - eta * step[name]
                        for name in step})  # (2.9)
        losses.append(total / len(SENTENCES))
    return history, losses


history, losses = descend(parameters)
trained = history[-1]
_, after = rnn.forward(trained, x, y)
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), width_ratios=[1, 2])
axes[0].semilogy(np.array(losses) - np.log(6))
axes[0].set(title="loss above the least possible", xlabel="iteration",
            ylabel="nats per sentence")
p = np.hstack([after.p[t] for t in range(1, len(x) + 1)])
heat_map(axes[1], p, "p_t after training; columns: the word just read",
         vocabulary.words, names_in, signed=False, top=1.0)
for t, word in enumerate(y):
    frame = plt.Rectangle((t - 0.5, word - 0.5), 1, 1, fill=False,
                          edgecolor=ORANGE, linewidth=2)
    axes[1].add_patch(frame)
plt.show()

# %% [markdown]
# The orange frames mark the words of this sentence. Where the language has a choice, the model
# spreads its probability, as it should: between `cat` and `cats`, and after the noun, where `on`
# follows in two of three sentences. At the verb there is no choice: after `mats` comes `sleep`,
# because the subject is `cats`.
#
# ## How far does a word reach?
#
# $\lVert \partial l_t / \partial \mathbf{x}_k \rVert$ measures how much the loss at step $t$
# depends on the word read at step $k$. Start from the loss at $t$ alone and apply line 8 step by
# step.

# %%
def reach(parameters, trace, dh, t):
    """Norms of the gradients that dh, at step t, sends to the words 1 .. t."""
    norms = []
    for k in range(t, 0, -1):
        dh, dx, _, _ = rnn.rnn_grad(dh, trace.x[k], trace.h[k - 1],
                                    parameters["T"])
        norms.append(np.linalg.norm(dx))
    return np.array(norms[::-1])


influence = np.zeros((len(x), len(x)))
for t in range(1, len(x) + 1):
    influence[t - 1, :t] = reach(parameters, trace, vertical[t], t)

SINGULAR, PLURAL = vocabulary.ids(["sleeps", "sleep"])
odds = calculus.one_hot(PLURAL, V) - calculus.one_hot(SINGULAR, V)
# the steps at which the verb is predicted, and the noun is read
VERB, NOUN = 6, 3
right, far = [], []
for p in history:
    _, now = rnn.forward(p, x, y)
    right.append(now.p[VERB][PLURAL, 0]
                 / (now.p[VERB][PLURAL, 0] + now.p[VERB][SINGULAR, 0]))
    far.append(reach(p, now, p["W_hy"].T @ odds, VERB)[NOUN - 1])

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), width_ratios=[1.5, 1, 1])
heat_map(axes[0], influence, "influence on the loss before training", names_out,
         names_in, signed=False)
axes[0].set(xlabel="word read", ylabel="word predicted")
axes[1].plot(right)
axes[1].set(title="p('sleep') among both verbs", xlabel="iteration",
            ylim=(0, 1.05))
axes[2].semilogy(far, color=ORANGE)
axes[2].set(title="influence of 'cats' on the odds", xlabel="iteration")
plt.show()
print(f"influence of the noun on the verb: {far[100]:.1e} in iteration 100, "
      f"{far[-1]:.1e} at the end")
assert right[100] < 0.7 and right[-1] > 0.9 and far[100] < far[-1] / 10

# %% [markdown]
# Above the diagonal of the heat map all is zero: later words do not influence earlier predictions.
#
# For many iterations the model only guesses the verb. The gradient that reaches the noun is tiny,
# because line 8 has multiplied it three times by $\mathbf{W}_{hh}^\top
# \mathrm{diag}(\sigma')$. Then the gradient grows, and within a few iterations it is so large that
# a step overshoots: this is the spike in the loss. After that, the model knows the right verb. Over
# longer distances the gradient vanishes or explodes. Lesson 2 shows how.
#
# ## Exercise 1: one line of Algorithm 1
#
# Write line 8: $d\mathbf{h}_{t-1}$ from $d\mathbf{h}_t$ (Eq. 2.28). All vectors are columns.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="apply Lemma 1 (2.11) to h_t = tanh(T z_t), and return the "
          "rows of h_{t-1}", mistakes=MISTAKES[1])
def check_exercise_1(answer):
    draw = np.random.default_rng(5)
    x, h, dh = (draw.normal(size=(n, 1)) for n in (E, H, H))
    T = draw.normal(size=(H, E + H))
    result = answer(dh, x, h, T)
    if fault := wrong_form(result, h, "dh_prev"):
        return fault
    return verdict(check_gradients(lambda h_prev: rnn.rnn(x, h_prev, T), [h],
                                   [result], upstream=dh))


# %%
# Your turn
def answer_1(dh, x, h_prev, T):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(dh, x, h_prev, T):
    a = T @ np.vstack([x, h_prev])
    return T[:, len(x):].T @ (tanh_prime(a) * dh)             # (2.28)


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: terms of a sum
#
# Our sentence has seven inputs, from `</s>` to `sleep`. How many of the seven terms of
# $d\mathbf{W}_{hh}$ can differ from zero?

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="line 6 is an outer product with h_{t-1}. What is h_0?",
          mistakes=MISTAKES[2], form=NUMBER)
def check_exercise_2(answer):
    nonzero = sum(bool(term.any()) for term in dW_hh.values())
    return (None if answer == nonzero
            else f"the figure above does not show {answer}")


# %%
# Your turn
answer_2 = None
check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
solution_2 = len(x) - 1  # at t = 1 the outer product is with h_0 = 0
check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: one matrix in two places
#
# Let $E = H$ and use the embeddings as output weights too, `W_hy = W_e`: one matrix, two uses. What
# is its gradient? `rnn.backward` knows nothing of this: it returns a gradient for `W_e` and another
# for `W_hy`, and you get both.

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="a weight that is used at several time steps has the same "
          "problem, and lines 3, 5 and 6 solve it", mistakes=MISTAKES[3])
def check_exercise_3(answer):
    draw = np.random.default_rng(6)
    tied = {"W_e": draw.normal(size=(V, H)), "T": draw.normal(size=(H, 2 * H))}

    def run(p):
        return rnn.forward({**p, "W_hy": p["W_e"]}, x, y)

    untied, _ = rnn.backward({**tied, "W_hy": tied["W_e"]}, x, y, run(tied)[1])
    result = answer(untied)
    if fault := wrong_form(result, tied["W_e"], "the gradient"):
        return fault
    return verdict(check_gradients(lambda p: run(p)[0], tied,
                                   {"W_e": result, "T": untied["T"]}))


# %%
# Your turn
def answer_3(gradients):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(gradients):
    return gradients["W_e"] + gradients["W_hy"]


check_exercise_3(solution_3, "Solution")
