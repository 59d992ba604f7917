# %% [markdown]
# # 5. Attention
#
# Section 4.2 of the thesis: Eqs. 4.5 to 4.7 and input feeding. The thesis prints no backward pass
# for this chapter, so you will derive one. Then you will train two translators, read their
# alignments, and see where alignments mislead.
#
# Beside this page: `grads/derivations/attention.py`, `attention/attention.py`,
# `nmt/models/input_feeding.py`.

# %%
from dataclasses import replace
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from drawing import GREY, heat_map
from exercises import difference, exercise, verdict, wrong_form
from mistakes import ATTENTION as MISTAKES
from tasks import dates, digits

from grads.check import check_gradients, check_pair
from grads.derivations import attention as derivation
from grads.derivations.attention_step import align, attend_grad
from grads.derivations.attention_step import attend as derived_attend
from grads.derivations.calculus import softmax
from grads.derivations.scores import Variant
from nmt.data.batches import Side, make_batch, make_sources
from nmt.data.vocabulary import Vocabulary
from nmt.models.translator import ModelConfig, Translator
from nmt.search.beam import greedy
from nmt.search.interface import SearchOptions
from nmt.training.optimizers import Adam, gradient_scale

# %% [markdown]
# ## Attending to the source
#
# Lesson 4 encoded whole sentences in one pair of vectors. Keep all the encoder's states
# $\bar{\mathbf{h}}_1 \dots \bar{\mathbf{h}}_S$ instead, and let each decoder state attend to them:
#
# $$\mathrm{score}(\mathbf{h}_t, \bar{\mathbf{h}}_s) =
#   \mathbf{h}_t^\top \mathbf{W}_a \bar{\mathbf{h}}_s \ \text{(general)} \qquad
#   a_t(s) = \frac{\exp \mathrm{score}(\mathbf{h}_t, \bar{\mathbf{h}}_s)}
#   {\sum_{s'} \exp \mathrm{score}(\mathbf{h}_t, \bar{\mathbf{h}}_{s'})} \quad (4.7)$$
# $$\mathbf{c}_t = \sum_s a_t(s)\,\bar{\mathbf{h}}_s \qquad
#   \tilde{\mathbf{h}}_t = \tanh(\mathbf{W}_c[\mathbf{c}_t; \mathbf{h}_t]) \quad (4.5) \qquad
#   p(y_t \mid y_{<t}, x) = \mathrm{softmax}(\mathbf{W}_s\tilde{\mathbf{h}}_t) \quad (4.6)$$
#
# It is a soft dictionary lookup. A dictionary returns the entry whose key matches; here every entry
# matches to a degree, and the result is a weighted mean. How peaked the weights are depends on the
# size of the scores. Multiply $\mathbf{h}_t$ by $\beta$:

# %%
rng = np.random.default_rng(4)
H, S = 4, 6
h, h_bar = rng.normal(size=(H, 1)), rng.normal(size=(H, S))
betas = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
rows = np.hstack([align(Variant("dot"), beta * h, h_bar, {})
                  for beta in betas]).T  # (4.7)
figure, axes = plt.subplots(1, 2, figsize=(10, 2.8), width_ratios=[1, 2])
axes[0].bar(range(1, S + 1), (h.T @ h_bar)[0], color=GREY)
axes[0].axhline(0, color="black", linewidth=0.8)
axes[0].set(title="scores h' hbar_s", xlabel="source position s")
heat_map(axes[1], rows, "a_t(s) for beta h",
         [f"beta = {beta:g}" for beta in betas], range(1, S + 1), signed=False,
         top=1.0)
axes[1].set_xlabel("source position s")
plt.show()

# %% [markdown]
# At $\beta = 0$ attention is a plain mean. At large $\beta$ it nearly chooses a single position.
# Attention is differentiable, so the model learns *where* to attend by the gradient, as it learns
# everything else.
#
# ## Backward
#
# Given $d\tilde{\mathbf{h}}_t$, go back line by line. Lemma 1 on (4.5), with $d\mathbf{v} =
# \tanh' \circ\, d\tilde{\mathbf{h}}_t$:
#
# $$d\mathbf{W}_c = d\mathbf{v}\,[\mathbf{c}_t; \mathbf{h}_t]^\top \qquad
#   [d\mathbf{c}_t; d\mathbf{h}_t] = \mathbf{W}_c^\top d\mathbf{v}$$
#
# The context is a product of the matrix $\bar{\mathbf{h}}$, whose columns are the states, with
# $\mathbf{a}_t$. Corollary 1 gives the gradients of both factors:
#
# $$d\mathbf{a}_t = \bar{\mathbf{h}}^\top d\mathbf{c}_t \qquad
#   d\bar{\mathbf{h}} = d\mathbf{c}_t\,\mathbf{a}_t^\top$$
#
# The softmax couples the positions: $\partial a(s)/\partial e(r) = a(s)(\delta_{sr} - a(r))$, since
# raising one score lowers the weights of all the others. Multiply by $d\mathbf{a}$ and sum over the
# positions:
#
# $$d\mathbf{e} = \mathbf{a} \circ (d\mathbf{a} - \mathbf{a}^\top d\mathbf{a})$$
#
# In words: descent raises a position's score if more weight on it would reduce the loss by more
# than the average over the current weights. The scores come last. Each is a product of three
# factors:
#
# $$d\mathbf{h}_t \mathrel{+}= \mathbf{W}_a\bar{\mathbf{h}}\,d\mathbf{e} \qquad
#   d\bar{\mathbf{h}} \mathrel{+}= \mathbf{W}_a^\top\mathbf{h}_t\,d\mathbf{e}^\top \qquad
#   d\mathbf{W}_a = \mathbf{h}_t\,(\bar{\mathbf{h}}\,d\mathbf{e})^\top$$
#
# Both $\mathbf{h}_t$ and $\bar{\mathbf{h}}$ are used twice, so the gradient of each is a sum of
# two. `attend_grad` has these lines; those of the scores are in `grads/derivations/scores.py`.

# %%
general = Variant("general")


def attend(h, h_bar, W_c, W_a):
    # (4.5), (4.7)
    h_tilde, _, _ = derived_attend(general, h, h_bar, W_c, {"W_a": W_a})
    return h_tilde, (h, h_bar, W_c, {"W_a": W_a})


def attend_backward(dh_tilde, cache):
    dh, dh_bar, dW_c, dw = attend_grad(general, dh_tilde, *cache)
    return dh, dh_bar, dW_c, dw["W_a"]


inputs = [h, h_bar, rng.normal(size=(H, 2 * H)), rng.normal(size=(H, H))]
print(check_pair(attend, attend_backward, inputs))

# %% [markdown]
# Here is the gradient of the scores, with its numbers:
#
# In the stepper: `grads explore attention`, at `de = softmax_grad(align, d_align)`.
#
# ## A short path for the gradient
#
# Attention is also a short path. Without it, the gradient of the last target word's loss reaches
# the source through every state in between. With it, the gradient goes from $\mathbf{c}_t$ straight
# to the state of each source word. We measure this on untrained models. The source is ten different
# digits, and the target is the same ten. How large is the gradient of the last digit's loss at each
# source word? All ten digits differ, so each has a row of its own in the embedding's gradient. The
# gradient of the tenth loss is the gradient of the sum of ten losses minus that of the sum of nine.

# %%
def translator(attention, units=32, source=12, target=12, **changes):
    """A translator of one layer; without input feeding, unless asked."""
    settings = {"input_feeding": False, "initialisation": "xavier",
                "scale": 1.0, "forget_bias": 1.0, **changes}
    config = ModelConfig(layers=1, hidden_size=units,
                         embedding_size=units // 2, attention=attention,
                         **settings)
    return Translator(config, source, target)


def source_gradients(attention, seed):
    """Norms of the gradient of the tenth digit's loss at each source word."""
    model, x = translator(attention), list(range(2, 12))
    p = model.initial_parameters(np.random.default_rng(seed), "float64")
    batch = make_batch([(x, x)], [0], False)
    d = {}
    for n in (9, 10):
        target = Side(batch.target.ids, np.array([n]))
        _, cache = model.loss(p, replace(batch, target=target))
        d[n] = model.backward(cache)["encoder.W_e"].dense()
    return np.linalg.norm(d[10] - d[9], axis=1)[2:]


figure, axes = plt.subplots(figsize=(6.5, 2.8))
for attention, style in (("none", "o--"), ("global", "o-")):
    norms = np.mean([source_gradients(attention, seed) for seed in range(20)],
                    axis=0)
    print(f"attention {attention}: first word {norms[0]:.4f}, last word "
          f"{norms[-1]:.4f}")
    axes.semilogy(range(1, 11), norms, style, label=f"attention: {attention}")
axes.set(title="gradient of the last word's loss at each source word (mean of "
         "20 models)", xlabel="source position", ylabel="norm",
         xticks=range(1, 11))
axes.legend()
plt.show()

# %% [markdown]
# Without attention the first word is the farthest, and its gradient is the smallest: the gradient
# passes ten steps of the encoder and ten of the decoder. With attention all words are equally near.
#
# ## The effect in training
#
# Train on the digits of lesson 4 again, not reversed, with the same 32 units.

# %%
def fit(model, batches, seed=0, rate=0.01):
    """Trained parameters."""
    parameters = model.initial_parameters(np.random.default_rng(seed))
    adam = Adam(rate)
    for number, batch in enumerate(batches, 1):
        adam.learning_rate = rate if 3 * number < 2 * len(batches) else rate / 4
        _, cache = model.loss(parameters, batch)
        gradients = model.backward(cache)
        scale, _ = gradient_scale(gradients, len(batch.indices), 5.0)
        adam.update(parameters, gradients, scale)
    return parameters


def translate(model, parameters, sources):
    """Greedy translations and their alignments."""
    hypotheses = greedy(model, parameters, make_sources(sources, False),
                        SearchOptions())
    return [h.tokens for h in hypotheses], [h.alignment for h in hypotheses]


figure, axes = plt.subplots(figsize=(7, 3))
share = {}
for attention, style in (("none", "o--"), ("global", "o-")):
    model, rng = translator(attention), np.random.default_rng(1)
    p = fit(model,
            [make_batch(digits(rng, 32), range(32), False) for _ in range(400)])
    share[attention] = []
    for n in range(1, 15):
        sources = [x for x, _ in digits(rng, 100, n)]
        said, _ = translate(model, p, sources)
        share[attention].append(np.mean([a == b
                                         for a, b in zip(said, sources,
                                                         strict=True)]))
    axes.plot(range(1, 15), share[attention], style,
              label=f"attention: {attention}")
axes.axvspan(10.5, 14.4, color="#dddddd", zorder=0)
axes.text(12, 0.85, "longer than any\nseen in training", fontsize=8)
axes.set(title="repeat n digits, 32 units", xlabel="n",
         ylabel="repeated without a mistake", ylim=(0, 1.05), xlim=(0.6, 14.4),
         xticks=range(1, 15))
axes.legend(loc="lower left")
plt.show()
assert share["global"][9] > 0.8 > 0.3 > share["none"][9]

# %% [markdown]
# With attention the share stays high for all lengths seen in training. Beyond them it falls: in
# training this model never had to attend to an eleventh position.
#
# ## Reading alignments
#
# $\mathbf{a}_t$ can be drawn: a row for each target word, a column for each source word. We train
# two models on the dates. One has a forward encoder. The other has a bidirectional encoder, whose
# states also represent the words that follow: the states of both directions are concatenated, and
# the decoder starts from a `bridge`, a learned layer that reads the last states of both directions.

# %%
pairs = dates(1200)
english, spanish = (Vocabulary.build(side) for side in zip(*pairs, strict=True))
ids = [(english.ids(x), spanish.ids(y)) for x, y in pairs]
train, test = ids[:1000], ids[1000:]
order = np.concatenate([np.random.default_rng(k).permutation(1000)
                        for k in range(12)])
batches = [make_batch(train, chunk, False) for chunk in order.reshape(-1, 25)]
KINDS = {"encoder: forward": {},
         "encoder: both ends": {"bidirectional": True, "bridge": True}}
models, maps, correct = {}, {}, {}
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
for place, (name, changes) in zip(axes, KINDS.items(), strict=True):
    model = translator("global", 40, len(english), len(spanish), **changes)
    models[name] = model, fit(model, batches)
    said, maps[name] = translate(*models[name], [x for x, _ in test])
    correct[name] = [a == list(y) for a, (_, y) in zip(said, test, strict=True)]
    heat_map(place, maps[name][0], f"a_t, {name}",
             [*spanish.tokens(said[0]), "</s>"], english.tokens(test[0][0]),
             signed=False, top=1.0)
plt.show()
for name, flags in correct.items():
    print(f"{name}: {np.mean(flags):.1%} of {len(test)} dates without a "
          "mistake")

# %% [markdown]
# Follow a row at a time. English has the month before the day and Spanish after it, so the
# alignment has to cross. The training data do not say which words correspond.
#
# The right links are known. From the Spanish position to the English one, counted from 1, they are:
# weekday 1 to 1, day 3 to 4, month 5 to 3, year 7 to 6. How often is the largest weight on the
# right word?

# %%
LINKS = {"weekday": (0, 0), "day": (2, 3), "month": (4, 2), "year": (6, 5)}


def on_the_right_word(name, maps):
    """How often the largest entry of a row is at the right word; printed."""
    hits = [np.mean([a[row].argmax() == column for a in maps])
            for row, column in LINKS.values()]
    print(f"{name:20}",
          *(f"{word} {hit:4.0%}  "
            for word, hit in zip(LINKS, hits, strict=True)))
    return hits


hits = {}
for name in KINDS:
    kept = [a
            for a, good in zip(maps[name], correct[name], strict=True) if good]
    hits[name] = on_the_right_word(name, kept)
assert min(map(min, hits.values())) < 0.9

# %% [markdown]
# All translations counted here are right, but not every link is. A word can be right although the
# model did not attend to its source word, because there are other paths. The state at a comma
# depends on the words before it, and in the second model also on those after it. The decoder starts
# from the encoder's last state, which has just read the year, so it can write the year without
# attending to it. An alignment shows where the weight is, not where the information comes from. The
# gradient of each word's loss with respect to each source embedding shows more, because it goes
# through all paths.

# %%
def gradient_map(model, parameters, x, y):
    """(m_y + 1, m_x): each source word's share of each loss's gradient."""
    p = {name: value.astype("float64") for name, value in parameters.items()}
    # a row for each position: words may repeat
    p["encoder.W_e"] = p["encoder.W_e"][list(x)]
    batch, total = make_batch([(range(len(x)), y)], [0], False), [np.zeros(())]
    for n in range(1, len(y) + 2):
        target = Side(batch.target.ids, np.array([n]))
        _, cache = model.loss(p, replace(batch, target=target))
        total.append(model.backward(cache)["encoder.W_e"].dense())
    norms = [np.linalg.norm(b - a, axis=1) for a, b in pairwise(total)]
    return np.array([row / row.sum() for row in norms])


x, y = test[0]
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
for place, (name, (model, p)) in zip(axes, models.items(), strict=True):
    heat_map(place, gradient_map(model, p, x, y),
             f"share of the gradient, {name}", [*spanish.tokens(y), "</s>"],
             english.tokens(x), signed=False, top=1.0)
    on_the_right_word(name,
                      [gradient_map(model, p, *pair) for pair in test[:25]])
plt.show()

# %% [markdown]
# Compare this table, of the gradient, with the one above, of attention. Where attention misses the
# right word, the gradient often finds it. The gradient can mislead too: through a saturated unit it
# is small, although the unit may matter.

# %% [markdown]
# ## Input feeding
#
# A decoder step does not know what the step before attended to. Input feeding (4.2.3) tells it:
# the input of step $t$ is the embedding concatenated with $\tilde{\mathbf{h}}_{t-1}$. This makes
# training slower. Without input feeding all decoder states can be computed first, and attention is
# one batched product over all steps. With it, attention is inside the time loop. The derivation has
# both forms, and the kernel's loss and gradients agree with the derivation's:

# %%
J = {}
for feeding in (False, True):
    model = translator("global", 6, len(english), len(spanish),
                       input_feeding=feeding)
    p = model.initial_parameters(np.random.default_rng(2), "float64")
    J[feeding], trace = derivation.attentional_nmt_forward(p, x, y)
    literal, _, _ = derivation.attentional_nmt_backward(p, x, y, trace)
    loss, cache = model.loss(p, make_batch([(x, y)], [0], False))
    fast = {name: d.dense() if hasattr(d, "dense") else d
            for name, d in model.backward(cache).items()}
    worst = max(float(np.abs(fast[name] - literal[name]).max())
                for name in literal)
    print(f"input feeding {feeding}: loss {J[feeding]:.6f}; kernel and "
          f"derivation differ by {abs(float(loss) - J[feeding]):.0e}, their "
          f"gradients by {worst:.0e}")
    assert worst < 1e-12

# %% [markdown]
# ## Exercise 1: padding
#
# In a batch short sentences are padded. Write the softmax over scores $\mathbf{e}$, (S, 1), of
# which only the first $n$ belong to words. Padding must get a weight of exactly zero, the other
# weights must sum to one, and large scores must not overflow.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="subtract the largest of the first n scores, apply exp, set "
          "what follows to zero, and divide by the sum; or set the scores "
          "after n to minus infinity first",
          mistakes=MISTAKES[1])
def check_exercise_1(answer):
    draw = np.random.default_rng(5)
    for n in (1, 3, 5):
        for size in (1.0, 1000.0):
            e = size * draw.normal(size=(5, 1))
            e[n:] += 5 * size
            expected = np.vstack([softmax(e[:n]), np.zeros((5 - n, 1))])
            with np.errstate(all="ignore"):
                result = answer(e.copy(), n)
            if fault := difference(result, expected, "a"):
                return fault
            if np.any(result[n:]):
                return "padding has a nonzero weight"
    return None


# %%
# Your turn
def answer_1(e, n):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(e, n):
    e = np.where(np.arange(len(e))[:, None] < n, e, -np.inf)
    a = np.exp(e - e.max())                             # exp(-inf) is exactly 0
    return a / a.sum()                                        # (4.7)


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: back through the softmax
#
# Given $\mathbf{a} = \mathrm{softmax}(\mathbf{e})$ and $d\mathbf{a}$, both (S, 1), return
# $d\mathbf{e}$. Do not build the (S, S) Jacobian.

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="the sum of a_t never changes, so the entries of de must sum "
          "to zero. Do yours?", mistakes=MISTAKES[2])
def check_exercise_2(answer):
    e, da = np.random.default_rng(6).normal(size=(2, 5, 1))
    result = answer(softmax(e), da)
    if fault := wrong_form(result, e, "de"):
        return fault
    return verdict(check_gradients(lambda e: softmax(e), [e], [result],
                                   upstream=da))


# %%
# Your turn
def answer_2(a, da):
    return None


check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
def solution_2(a, da):
    return a * (da - (a * da).sum())


check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: two paths into the source
#
# $\bar{\mathbf{h}}$, (He, S), is read twice: by the scores $\mathbf{e} = \bar{\mathbf{h}}^\top
# \mathbf{W}_a^\top \mathbf{h}_t$ and by the context $\mathbf{c}_t = \bar{\mathbf{h}}\mathbf{a}_t$.
# Given $d\mathbf{c}$ (He, 1) and $d\mathbf{e}$ (S, 1), with $\mathbf{h}$, $\mathbf{a}$ and
# $\mathbf{W}_a$, (H, He), return $d\bar{\mathbf{h}}$.

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="Corollary 1 twice, and a sum. W_a^T h is one column, the "
          "query; each source state gets it times its own de_s",
          mistakes=MISTAKES[3])
def check_exercise_3(answer):
    draw = np.random.default_rng(7)
    h, h_bar, W_a = (draw.normal(size=shape)
                     for shape in ((3, 1), (4, 5), (3, 4)))
    dc = draw.normal(size=(4, 1))
    a = align(general, h, h_bar, {"W_a": W_a})
    de = a * (h_bar.T @ dc - a.T @ (h_bar.T @ dc))
    result = answer(dc, de, h, a, W_a)
    if fault := wrong_form(result, h_bar, "dh_bar"):
        return fault

    def context(h_bar):
        return h_bar @ align(general, h, h_bar, {"W_a": W_a})
    return verdict(check_gradients(context, [h_bar], [result], upstream=dc))


# %%
# Your turn
def answer_3(dc, de, h, a, W_a):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(dc, de, h, a, W_a):
    return dc @ a.T + (W_a.T @ h) @ de.T                  # context, then scores


check_exercise_3(solution_3, "Solution")
