# %% [markdown]
# # 9. Beam search: which translation is best?
#
# Section 2.3.2 of the thesis, and Nguyen's section 3.1.3. A trained model gives every translation a
# probability. You will look for the most probable one: first among all, then greedily, then with a
# beam. You will see what a beam misses, and why long translations need help.
#
# The project's own search is `nmt/search/beam.py`. You need lesson 4.

# %%
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, GREY, ORANGE, heat_map
from exercises import NO_ANSWER, NUMBER, difference, exercise, is_empty
from mistakes import BEAM as MISTAKES

from grads.stepper import trained
from grads.stepper.explorer.search import OWN_SENTENCE
from nmt.data.batches import make_sources
from nmt.data.corpora import tokenisers
from nmt.search.beam import beam_search
from nmt.search.interface import SearchOptions
from nmt.system import System

# %% [markdown]
# ## The task
#
# The model predicts one word at a time. The probability of a translation is a product, so its
# logarithm is a sum:
#
# $$\log p(y \mid x) = \sum_{t=1}^{T} \log p(y_t \mid y_{<t}, x) \qquad (2.51)$$
#
# We want the $y$ for which it is largest. With $V$ words there are $V^T$ sentences of length $T$.
# Here is a model so small that we can try them all: four words, of which the first, `_`, ends a
# sentence. What comes next depends on the word before.

# %%
WORDS = ["_", "a", "b", "c"]
V, END, LONGEST = len(WORDS), 0, 5
rng = np.random.default_rng(23)


def random_model():
    """log p(next word | word before), (V, V). No sentence is empty."""
    logits = 1.5 * rng.normal(size=(V, V))
    logits[END, END] = -np.inf
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


LOG_P = random_model()


def score(words):
    """log p of a sentence, with its end marker."""
    return sum(LOG_P[before, word]
               for before, word in zip([END, *words], [*words, END],
                                       strict=True))


everything = [words for T in range(1, LONGEST + 1)
              for words in product(range(1, V), repeat=T)]
best = max(everything, key=score)
figure, axes = plt.subplots(figsize=(4.2, 2.6))
heat_map(axes, np.exp(LOG_P), "p(next word | word before)", WORDS, WORDS,
         signed=False)
axes.set(xlabel="next word", ylabel="word before")
plt.show()
print(f"{len(everything)} sentences; the best is "
      f"{' '.join(WORDS[w] for w in best)!r}, log p {score(best):.3f}")

# %% [markdown]
# ## A beam
#
# Greedy search takes the most probable word at each step, and cannot take it back. A *beam* keeps
# the $K$ best beginnings instead. At each step:
#
# 1. extend each of the $K$ by every word: $K V$ candidates, each with the sum of its logarithms;
# 2. keep the $K$ best of them;
# 3. the ones that end in `_` are finished, and leave the beam.
#
# Each logarithm is negative, so a sum only falls as a sentence grows. Once a finished sentence is
# better than every beginning in the beam, the search is over. With $K = 1$ this is greedy search.

# %%
def beam(start, advance, K, longest):
    """The best finished sentence and its log p; None if none was finished.

    advance(state, word) returns log p of each next word, and the new state.
    """
    open_, finished = [(0.0, [], start, END)], []
    for _ in range(longest + 1):
        candidates = []
        for log_p, words, state, last in open_:
            extended, new_state = advance(state, last)
            candidates += [(log_p + extended[w], words, new_state, w)
                           for w in range(len(extended))]
        candidates.sort(key=lambda candidate: -candidate[0])
        open_ = []
        for log_p, words, state, word in candidates[:K]:
            if word == END:
                finished.append((log_p, words))
            else:
                open_.append((log_p, [*words, word], state, word))
        top = max(finished, default=(-np.inf, None), key=lambda pair: pair[0])
        if not open_ or top[0] > open_[0][0]:
            break
    return top


def chain(state, word):
    """The model above, which has no state but the word before."""
    return LOG_P[word], state


best_of = {K: beam(None, chain, K, LONGEST) for K in range(1, 9)}
for K, (log_p, words) in best_of.items():
    print(f"K = {K}: log p {log_p:7.3f}  "
          f"{' '.join(WORDS[w] for w in words or [])}")

# %% [markdown]
# ## How often is it right?
#
# One model proves nothing. Draw three hundred models, and each time compare what the beam finds
# with the best of all sentences.

# %%
sizes = (1, 2, 3, 4, 6, 8)
models = 300
right = np.zeros(len(sizes))
for _ in range(models):
    LOG_P = random_model()
    top = max(map(score, everything))
    for k, K in enumerate(sizes):
        log_p, _ = beam(None, chain, K, LONGEST)
        right[k] += log_p >= top - 1e-12
figure, axes = plt.subplots(figsize=(5.5, 2.8))
axes.plot(sizes, right / models, "o-", color=BLUE)
axes.set(title="how often the beam has the best sentence", xlabel="K",
         ylim=(0, 1.05))
plt.show()
assert right[0] < right[1] < right[-1]

# %% [markdown]
# A small $K$ already brings most of the gain.
#
# ## A real translator
#
# Now use the same function on a trained model: the small translator that comes with this project.
# `advance` now feeds a word to the translator's decoder.

# %%
system = System.open(trained.DIRECTORY / "attention", "best")
model, parameters = system.model, system.parameters
words = tokenisers(system.recipe.data)[0].tokenise(OWN_SENTENCE)
sources = make_sources([system.source_ids(words)],
                       system.recipe.data.reverse_source)


def decoder(state, word):
    """The decoder's step: log p of the next word, and its new state."""
    word = 1 if word == END else word  # there the end marker's id is 1
    logits, state, _ = model.step(parameters, state, np.array([word]))
    log_p = logits[0] - np.log(np.exp(logits[0]).sum())
    # the end marker moves to END = 0, in place of <unk>, which we do not want
    log_p[0], log_p[1] = log_p[1], -np.inf
    return log_p, state


print("source:", OWN_SENTENCE)
for K in (1, 2, 3, 5):
    log_p, ids = beam(model.encode(parameters, sources, 1), decoder, K, 12)
    [[theirs]] = beam_search(model, parameters, sources,
                             SearchOptions(beam=K, unknown=False))
    assert ids == theirs.tokens and abs(log_p - theirs.log_probability) < 1e-4
    print(f"K = {K}: log p {log_p:7.3f}  {' '.join(system.target.tokens(ids))}")

# %% [markdown]
# The project's search returns the same translations, as the assertion checks. It can also search
# for many sentences at once. Here is the search step by step, as a tree of hypotheses:
#
# In the stepper: `grads explore search`.
#
# ## Why short translations win
#
# Each word multiplies the sentence's probability by a number below one. So among sentences that are
# equally good word by word, the shortest wins. *Length normalisation* divides the logarithm by a
# power of the length (Nguyen 3.1.3, after Wu et al.):
#
# $$s(y) = \frac{\log p(y \mid x)}{lp(y)} \qquad lp(y) = \frac{(5 + |y|)^\alpha}{(5 + 1)^\alpha}$$

# %%
lengths = np.arange(1, 31)
figure, axes = plt.subplots(figsize=(6, 2.8))
for alpha, color in ((0.0, GREY), (0.6, BLUE), (1.0, ORANGE)):
    penalty = ((5 + lengths) / 6) ** alpha
    axes.plot(lengths, -0.3 * lengths / penalty, color=color,
              label=f"alpha = {alpha:g}")
axes.set(title="score of a sentence with log p = -0.3 a word", xlabel="length")
axes.legend()
plt.show()

# %% [markdown]
# With $\alpha = 0$ a sentence of 30 words has a score of -9, and one of three words -0.9. With
# $\alpha = 1$ the scores are closer, -1.54 and -0.68, but the short sentence still wins.
#
# ## Exercise 1: one step of a beam
#
# You get the scores so far, (K,), and $\log p$ of each next word, (K, V). Choose the $K$ best
# candidates, the best first. Return two arrays: their rows (which beginning) and their words.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="add the scores as a column, flatten, sort, and take the "
          "first K places: row = place // V, word = place % V",
          mistakes=MISTAKES[1])
def check_exercise_1(answer):
    draw, faults = np.random.default_rng(3), []
    for K, V in ((3, 5), (4, 4), (1, 4)):
        so_far = -draw.uniform(0, 5, size=K)
        log_p = -draw.uniform(0, 3, size=(K, V))
        total = so_far[:, None] + log_p
        places = np.argsort(-total, axis=None)[:K]
        faults.append(difference(answer(so_far.copy(), log_p.copy()),
                                 (places // V, places % V)))
    return next(filter(None, faults), None)


# %%
# Your turn
def answer_1(so_far, log_p):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(so_far, log_p):
    K, V = log_p.shape
    places = np.argsort(-(so_far[:, None] + log_p).reshape(-1))[:K]
    return places // V, places % V


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: how much work is it?
#
# A translator has 50,000 words and writes 20 of them; the beam is 10. Exhaustive search looks at
# $50000^{20}$ sentences. How many candidates does the beam look at, in all 20 steps? (The first
# step has one beginning, all others have ten.)

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="a step with K beginnings has K V candidates",
          mistakes=MISTAKES[2], form=NUMBER)
def check_exercise_2(answer):
    return (None if answer == 50_000 + 19 * 10 * 50_000
            else f"{answer} is not the number")


# %%
# Your turn
answer_2 = None
check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
solution_2 = 50_000 + 19 * 10 * 50_000
check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: when to stop
#
# You get two lists: $\log p$ of the finished sentences, and of the open beginnings. Either may be
# empty. Return True if the search may stop: no beginning can become the best sentence any more, or
# none is left. There is no length normalisation.

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="a beginning's log p only falls. When can none reach the "
          "best finished one?", mistakes=MISTAKES[3])
def check_exercise_3(answer):
    cases = (([-3.0], [-2.0, -4.0], False), ([-3.0], [-3.5, -4.0], True),
             ([], [-1.0], False), ([-5.0], [], True),
             ([-6.0, -2.0], [-2.5], True), ([-1.0, -9.0], [-0.5, -7.0], False),
             ([-3.0], [-1.0, -2.0], False))
    result = [answer(list(finished), list(open_))
             for finished, open_, _ in cases]
    if is_empty(result):
        return NO_ANSWER
    for (finished, open_, expected), said in zip(cases, result, strict=True):
        if bool(said) != expected:
            return f"with finished {finished} and open {open_} it says {said}"
    return None


# %%
# Your turn
def answer_3(finished, open_):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(finished, open_):
    return not open_ or (bool(finished) and max(finished) >= max(open_))


check_exercise_3(solution_3, "Solution")
