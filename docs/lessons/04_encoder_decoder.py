# %% [markdown]
# # 4. Encoder and decoder
#
# Section 2.3 of the thesis: Eqs. 2.51 and 2.52, Algorithms 3, 4 and 5. You will follow a gradient
# from the target sentence into the source. You will train a translator for dates, which takes
# seconds, translate with it, and find its limits.
#
# Beside this page: `grads/derivations/nmt.py`, and `nmt/models/translator.py` for the fast code.

# %%
import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, ORANGE
from exercises import NO_ANSWER, difference, exercise, is_empty
from mistakes import TRANSLATOR as MISTAKES
from tasks import dates, digits

from grads.check import check_gradients
from grads.derivations import nmt as derivation
from grads.derivations.rnn import embed, predict, predict_grad
from grads.derivations.units import deep_step, deep_step_grad, zero_states
from nmt.data.batches import make_batch, make_sources
from nmt.data.vocabulary import Vocabulary
from nmt.models.translator import ModelConfig, Translator
from nmt.search.beam import beam_search, greedy
from nmt.search.interface import SearchOptions
from nmt.training.optimizers import Adam, gradient_scale

# %% [markdown]
# ## Sentences to translate
#
# The sentences are dates of one decade, in English and in Spanish, as Unicode CLDR writes them. The
# domain is small, but day and month change places, words are dropped and words are added.
# (`tasks.py`, beside this lesson, makes the pairs.)

# %%
pairs = dates(1200)
english, spanish = (Vocabulary.build(side) for side in zip(*pairs, strict=True))
ids = [(english.ids(x), spanish.ids(y)) for x, y in pairs]
train, test = ids[:1000], ids[1000:]
for x, y in pairs[:3]:
    print(" ".join(x), " | ", " ".join(y))
print(f"{len(english)} English and {len(spanish)} Spanish words")

# %% [markdown]
# ## One long sentence
#
# A translator is a language model of the target, conditioned on the source:
#
# $$\log p(y \mid x) = \sum_t \log p(y_t \mid y_{<t}, \mathbf{s}) \quad (2.51) \qquad
#   J = \sum_{(x, y)} -\log p(y \mid x) \quad (2.52)$$
#
# Algorithm 3 writes both sentences in one row, $s = [x, \_, y, \_]$, and runs an LSTM over it. The
# marker $\_$ ends a sentence, and $x$ has $m_x$ words. At $t = m_x + 1$ the algorithm switches from
# the encoder's weights to the decoder's (line 5), and from there on each state predicts the next
# word of the row (line 10). The decoder starts from the encoder's last $\mathbf{h}$ and
# $\mathbf{c}$. That pair is the whole representation $\mathbf{s}$ of the source.

# %%
config = ModelConfig(layers=2, hidden_size=6, embedding_size=5,
                     attention="none", input_feeding=False, scale=0.6)
model = Translator(config, len(english), len(spanish))
parameters = model.initial_parameters(np.random.default_rng(1), "float64")
x, y = ids[0]
J, trace = derivation.forward(parameters, x, y)               # Algorithm 3
m_x = len(x)
row = [*english.tokens(x), "_", *spanish.tokens(y), "_"]
for t in range(1, m_x + 1 + len(y) + 1):
    side = "encoder" if t <= m_x else "decoder"
    loss_t = (f"predict {row[t]:10} {trace.l[t]:6.2f} nats" if t in trace.l
              else "")
    print(f"t = {t:2}  {side}  reads {row[t - 1]:10} {loss_t}")
print(f"J = {J:.3f} nats")

# %% [markdown]
# During training the decoder reads the *right* word $y_t$, whatever it would have predicted:
# teacher forcing. All inputs are known before the first step, so Algorithm 3 is one forward pass.
#
# The fast code takes a batch of pairs, and computes the same up to rounding:

# %%
batch = make_batch([(x, y)], [0], reverse_source=False)
loss, cache = model.loss(parameters, batch)
fast = model.backward(cache)
literal, _, _ = derivation.backward(parameters, x, y, trace)  # Algorithm 4
dense = {name: d.dense() if hasattr(d, "dense") else d
         for name, d in fast.items()}
worst = max(float(np.abs(dense[name] - literal[name]).max())
            for name in literal)
print(f"kernel {float(loss):.12f}, derivation {J:.12f}; gradients differ by "
      f"{worst:.0e} at most")
assert worst < 1e-12
print(check_gradients(lambda p: model.loss(p, batch)[0], parameters,
                      fast).summary())

# %% [markdown]
# ## Algorithm 4: where the gradient comes from
#
# Go back along the row. In the decoder each state gets two gradients: a vertical one from
# its own prediction (lines 9 and 10), and a recurrent one from the state after it (line 14). The
# encoder has no predictions, so its whole gradient comes from the decoder's first step.

# %%
def gradients_along(parameters, x, y):
    """Norms of both parts of the top layer's dh_t: vertical, recurrent."""
    _, trace = derivation.forward(parameters, x, y)
    side, parts = derivation.weights(parameters, "decoder"), []
    top = len(side.T)
    dh, dc = zero_states(side.T)                              # line 1
    for t in range(len(x) + 1 + len(y), 0, -1):               # line 3
        if t == len(x):                                       # line 4
            side = derivation.weights(parameters, "encoder")
        vertical = np.zeros_like(dh[top])
        if t > len(x):                                        # line 8
            vertical, _, _ = predict_grad(trace.s[t + 1], trace.p[t],
                                          trace.h[t][top],
                                          parameters["output.W_hy"])  # line 9
        parts.append([np.linalg.norm(vertical), np.linalg.norm(dh[top])])
        dh = {**dh, top: dh[top] + vertical}                  # line 10
        # lines 13-15
        dh, dc, _, _, _ = deep_step_grad("lstm", dh, dc, trace.h[t - 1],
                                         trace.c[t - 1], trace.h[t], side.T,
                                         side.b)
    return np.array(parts[::-1])


parts = gradients_along(parameters, x, y)
figure, axes = plt.subplots(figsize=(9.5, 3))
t = np.arange(1, len(parts) + 1)
axes.bar(t - 0.2, parts[:, 0], 0.4, label="vertical: from the prediction at t")
axes.bar(t + 0.2, parts[:, 1], 0.4, label="recurrent: from t + 1")
axes.axvspan(0.4, m_x + 0.5, color="#dddddd", zorder=0)
axes.text(0.6, 1.2 * parts.max(), "encoder: no predictions here")
axes.set(title="the gradient of the top layer's h_t along s = [x, _, y, _]",
         ylabel="norm", xlim=(0.4, len(t) + 0.6), ylim=(0, 1.3 * parts.max()))
axes.set_xticks(t, row[:-1], rotation=35, ha="right")
axes.legend(loc="upper right")
plt.show()
assert not parts[:m_x, 0].any() and parts[:m_x, 1].all()

# %% [markdown]
# Step by step, through the decoder and on into the encoder:
#
# In the stepper: `grads explore nmt`, at `dh = {**dh, l - 1: dh[l - 1] + dx}`.
#
# ## Training
#
# We train one layer of 48 units by Adam, with batches of 25. Each batch is one call of Algorithm 3
# and one of Algorithm 4. `gradient_scale` divides by the number of sentences and clips the norm at
# 5.

# %%
def fit(model, batches, seed=0, rate=0.01, watch=None):
    """Trained parameters, losses by batch; calls `watch` every 60 batches."""
    parameters = model.initial_parameters(np.random.default_rng(seed))
    adam, losses = Adam(rate), []
    for number, batch in enumerate(batches, 1):
        adam.learning_rate = rate if 3 * number < 2 * len(batches) else rate / 4
        loss, cache = model.loss(parameters, batch)           # Algorithm 3
        gradients = model.backward(cache)                     # Algorithm 4
        scale, _ = gradient_scale(gradients, len(batch.indices), 5.0)
        adam.update(parameters, gradients, scale)
        losses.append(float(loss) / batch.target.lengths.sum())
        if watch and number % 60 == 0:
            watch(number, parameters)
    return parameters, losses


def right(model, parameters, pairs, reverse):
    """The share that greedy search translates exactly; its translations."""
    translations = greedy(model, parameters,
                          make_sources([x for x, _ in pairs], reverse),
                          SearchOptions())  # Algorithm 5
    said = [translation.tokens for translation in translations]
    return np.mean([a == list(y)
                    for a, (_, y) in zip(said, pairs, strict=True)]), said


def plain(units, source, target):
    """A translator without attention."""
    return Translator(ModelConfig(layers=1, hidden_size=units,
                                  embedding_size=units // 2, attention="none",
                                  input_feeding=False, initialisation="xavier",
                                  scale=1.0, forget_bias=1.0), source, target)


order = np.concatenate([np.random.default_rng(k).permutation(1000)
                        for k in range(14)])
translator = plain(48, len(english), len(spanish))
seen = []
batches = [make_batch(train, chunk, True) for chunk in order.reshape(-1, 25)]


def watch(number, p):
    seen.append((number, right(translator, p, test, True)[0]))


trained, losses = fit(translator, batches, watch=watch)
share, said = right(translator, trained, test, True)
figure, axes = plt.subplots(1, 2, figsize=(9.5, 2.8))
axes[0].semilogy(losses)
axes[0].set(title="loss", xlabel="batch", ylabel="nats per word")
axes[1].plot(*zip(*seen, strict=True), "o-", color=ORANGE)
axes[1].set(title="test dates translated without a mistake", xlabel="batch",
            ylim=(0, 1.05))
plt.show()
for (x, _), tokens in list(zip(test, said, strict=True))[:4]:
    print(" ".join(english.tokens(x)), " -> ", " ".join(spanish.tokens(tokens)))
print(f"{share:.1%} of {len(test)} dates that it has never seen")
assert share > 0.8

# %% [markdown]
# ## Algorithm 5
#
# At test time there is no right word to read. The decoder starts from `_` and reads its own last
# word at each step. It takes the most probable next word (line 7), and stops at `_` or after
# $\alpha m_x$ words. The derivation's `greedy` is the printed algorithm, and gives the same words
# as the batched search.

# %%
for (x, _), tokens in list(zip(test, said, strict=True))[:20]:
    assert derivation.greedy(trained, x[::-1]) == tokens[:int(1.5 * len(x))]

# %% [markdown]
# We reversed the source (`True` above, and `[::-1]` here), like many systems of the thesis. The
# first words of both sentences are then close to each other, and the gradient has a short path
# between them. See the effect on a task that needs only memory: to repeat one to ten digits.

# %%
def learn_digits(units, reverse, updates=400):
    """The share repeated without a mistake, by length from 1 to 10."""
    model, rng = plain(units, 12, 12), np.random.default_rng(1)
    batches = [make_batch(digits(rng, 32), range(32), reverse)
               for _ in range(updates)]
    parameters, _ = fit(model, batches)
    return [right(model, parameters, digits(rng, 100, n), reverse)[0]
            for n in range(1, 11)]


figure, axes = plt.subplots(figsize=(6.5, 3.2))
result = {}
for (units, reverse), style in {(32, False): "o--", (32, True): "o-",
                                (64, True): "s-"}.items():
    result[units, reverse] = learn_digits(units, reverse)
    label = f"{units} units, source {'reversed' if reverse else 'not reversed'}"
    axes.plot(range(1, 11), result[units, reverse], style, label=label,
              color=BLUE if units == 32 else ORANGE)
axes.set(title="repeat n digits", xlabel="n",
         ylabel="repeated without a mistake", ylim=(0, 1.05),
         xticks=range(1, 11))
axes.legend()
plt.show()
assert sum(result[32, False]) < sum(result[32, True]) < sum(result[64, True])

# %% [markdown]
# In this run reversing helps, and so do more units. But every curve falls. However long the
# sentence is, it has to pass through one pair of vectors of fixed size: a bottleneck. Twice the
# units, with about four times the weights, only move the fall to longer sequences. Attention
# removes the bottleneck, in lesson 5.
#
# ## Exercise 1: what is read, what is predicted
#
# You get the target $y$ as a list of word ids, without `_` at either end. The id of `_` is 1.
# Return two lists of ids: what the decoder reads, step by step, and what it has to predict.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="s = [x, _, y, _]: the decoder begins with the first _ and "
          "predicts the second", mistakes=MISTAKES[1])
def check_exercise_1(answer):
    for _, y in (*train[:3], ([2], [])):
        batch = make_batch([([2], y)], [0], False)
        expected = batch.target_in[:, 0], batch.target_out[:, 0]
        result = answer(list(y))
        if fault := difference(result, expected):
            return fault if is_empty(result) else f"for y = {list(y)}: {fault}"
    return None


# %%
# Your turn
def answer_1(y):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(y):
    return [1, *y], [*y, 1]


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: greedy is not best
#
# A decoder gives the probabilities below; after the second word a sentence ends. Greedy search
# takes *das* and then *Haus*. Which two words have the highest joint probability? Write them as a
# pair, such as `("das", "Haus")`.

# %%
FIRST = {"das": 0.55, "ein": 0.45}
SECOND = {"das": {"Haus": 0.4, "Heim": 0.3, "Dach": 0.3},
          "ein": {"Haus": 0.9, "Heim": 0.1}}

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="multiply: p(y | x) is a product over words (2.51)",
          mistakes=MISTAKES[2], form='a pair of words, as ("das", "Haus")')
def check_exercise_2(answer):
    first, second = answer
    if first not in FIRST:
        return f"no sentence begins with {first!r}"
    if second not in SECOND[first]:
        return f"{second!r} does not follow {first!r}"
    joint = FIRST[first] * SECOND[first][second]
    best = max(p * q for a, p in FIRST.items() for q in SECOND[a].values())
    return (None if joint == best
            else f"'{first} {second}' has {joint:.3f}; there is a better one")


# %%
# Your turn
answer_2 = None
check_exercise_2(answer_2)

# %% [markdown]
# ### Solution
#
# Beam search keeps the $K$ best prefixes instead of one. With $K = 2$ it finds the best pair. On
# our dates beam search improves the result only a little:

# %% tags=["solution"]
# The solution of exercise 2
solution_2 = ("ein", "Haus")
check_exercise_2(solution_2, "Solution")
beams = beam_search(translator, trained,
                    make_sources([x for x, _ in test], True),
                    SearchOptions(beam=4))
better = np.mean([a[0].tokens == list(y)
                  for a, (_, y) in zip(beams, test, strict=True)])
print(f"greedy {share:.1%}, beam of 4 {better:.1%}")

# %% [markdown]
# ## Exercise 3: Algorithm 5
#
# Write Algorithm 5. `advance(state, word)` reads a word and returns $\mathbf{p}_t$, an array, and
# the new state. You also get the encoder's state, $m_x$ and $\alpha$. Start with the word `_` (id
# 1), stop at `_` or after $\alpha m_x$ words, and return the words without `_`.

# %%
def decoder_of(parameters):
    """What Algorithm 5 needs of a model: its step."""
    W_e, T, b = derivation.weights(parameters, "decoder")

    def advance(state, word):
        h, c = deep_step("lstm", *state, embed(word, W_e), T, b)  # line 5
        _, p = predict(1, h[len(T)], parameters["output.W_hy"])  # line 6
        return p[:, 0], (h, c)
    return advance

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="the loop runs while t <= alpha m_x and starts from the word "
          "1; no 1 is returned, neither the first nor the last",
          mistakes=MISTAKES[3])
def check_exercise_3(answer):
    for x, _ in test[:5]:
        x = x[::-1]
        result = answer(decoder_of(trained), derivation.encode(trained, x),
                        len(x), 1.5)
        if result is None:
            return NO_ANSWER
        if list(result) != derivation.greedy(trained, x):
            return (f"expected {derivation.greedy(trained, x)}, got "
                    f"{[*map(int, result)]}")
    # a decoder that counts: 2, 3, 4 ... and says _ only after 50 words
    result = answer(lambda n, _: (np.eye(52)[(n + 2) % 51], n + 1), 0, 4, 1.5)
    if list(result) != [2, 3, 4, 5, 6, 7]:
        return ("with m_x = 4 and alpha = 1.5 expected 6 words, got "
                f"{len(result)}")
    return None


# %%
# Your turn
def answer_3(advance, state, m_x, alpha):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(advance, state, m_x, alpha):
    words = [1]                                               # line 3
    while len(words) <= alpha * m_x:                          # line 4
        p, state = advance(state, words[-1])                  # lines 5, 6
        word = int(p.argmax())                                # line 7
        if word == 1:                                         # line 8
            break
        words.append(word)
    return words[1:]                                          # line 13


check_exercise_3(solution_3, "Solution")
