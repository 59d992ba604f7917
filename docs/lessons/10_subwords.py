# %% [markdown]
# # 10. Rare words: pieces and letters
#
# A translator has a row of its embedding matrix for each word that it knows. What about the others?
# You will cut words into pieces by byte pair encoding (Sennrich et al.). Then you will compute a
# word's vector from its letters, and spell a word letter by letter, forward and backward (chapter 5
# of the thesis).
#
# The project's own code is in `nmt/data/bpe.py` and `grads/derivations/hybrid.py`. You need lessons
# 2 and 5.

# %%
from collections import Counter
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, GREY, ORANGE, heat_map
from exercises import HINT, NO_ANSWER, difference, exercise, is_empty
from mistakes import SUBWORDS as MISTAKES

from grads.check import check_gradients
from grads.derivations.encoders import encode
from grads.derivations.examples import Request, Sizes
from grads.derivations.hybrid import (
    SOURCE,
    hybrid_backward,
    hybrid_forward,
    represent,
)
from grads.derivations.hybrid_example import hybrid_example
from nmt.data.bpe import Codes

# %% [markdown]
# ## How many words are unknown?
#
# German joins words, and puts endings on them. So a text has many words that occur once, and the
# next text has many words that the first one lacks. Here is a small language of this kind. Its
# words are made by rule: a noun, or two joined nouns, with an ending.

# %%
NOUNS = ("haus", "tür", "dach", "garten", "schuh", "hand", "tisch", "licht")
ENDINGS = ("", "e", "en", "er", "es")
rng = np.random.default_rng(4)


def word():
    """A noun or a compound of two, with an ending; frequent nouns first."""
    p = 1 / np.arange(1, len(NOUNS) + 1)
    first, second = rng.choice(NOUNS, size=2, p=p / p.sum())
    return first + (second if rng.random() < 0.4 else "") + rng.choice(ENDINGS)


text, later = [word() for _ in range(400)], [word() for _ in range(400)]
known = Counter(text)
unknown = [w for w in later if w not in known]
print(f"{len(known)} different words in {len(text)}; of the next {len(later)}, "
      f"{len(unknown)} are unknown:")
print(", ".join(sorted(set(unknown))[:4]), "...")

# %% [markdown]
# A translator would read each of these as `<unk>`. But nothing in them is new: `haus`, `tür` and
# `en` are in the text many times.
#
# ## Byte pair encoding
#
# Begin with letters. Count which pair of neighbours is the most frequent, and make it one symbol.
# Repeat. Frequent words become one symbol; rare words stay divided into several. `</w>` marks the
# end of a word, so that pieces can be put together again.

# %%
def split(word):
    """A word as letters, the end marked."""
    return (*word[:-1], word[-1] + "</w>")


def merge(symbols, pair):
    """The symbols, with each occurrence of the pair merged, from the left."""
    made = []
    for symbol in symbols:
        if made and (made[-1], symbol) == pair:
            made[-1] += symbol
        else:
            made.append(symbol)
    return tuple(made)


def learn(counts, merges):
    """The pairs that are merged, in order."""
    words, pairs = {w: split(w) for w in counts}, []
    for _ in range(merges):
        frequency = Counter()
        for w, symbols in words.items():
            for pair in pairwise(symbols):
                frequency[pair] += counts[w]
        if not frequency:
            break
        pairs.append(max(frequency, key=lambda pair: (frequency[pair], pair)))
        words = {w: merge(symbols, pairs[-1]) for w, symbols in words.items()}
    return pairs


pairs = learn(known, 60)
print("the first merges:", ", ".join("+".join(pair) for pair in pairs[:6]))


def cut(word, pairs):
    """A word in pieces: the merges, in the order in which they were learned."""
    symbols = split(word)
    for pair in pairs:
        symbols = merge(symbols, pair)
    return symbols


codes = Codes(pairs)
for w in [*dict.fromkeys(unknown)][:4]:
    pieces = cut(w, pairs)
    written = [piece.removesuffix("</w>")
               + ("" if piece.endswith("</w>") else "@@") for piece in pieces]
    assert written == codes.cut(w)         # the project cuts it in the same way
    print(f"{w:16} {' '.join(written)}")

# %% [markdown]
# ## How many merges?
#
# Few merges give few kinds of pieces, and long sentences. Many merges give short sentences, but
# pieces so rare that a model learns little about them.

# %%
numbers = range(0, 121, 10)
pairs = learn(known, max(numbers))
kinds, tokens, fresh = [], [], []
for n in numbers:
    in_text = Counter(piece for w in text for piece in cut(w, pairs[:n]))
    in_later = [piece for w in later for piece in cut(w, pairs[:n])]
    kinds.append(len(in_text))
    tokens.append(len(in_later) / len(later))
    fresh.append(np.mean([piece not in in_text for piece in in_later]))
figure, axes = plt.subplots(1, 3, figsize=(10, 2.6))
for place, values, title, color in zip(axes, (kinds, tokens, fresh), (
        "different pieces", "pieces for each word", "share of unknown pieces"),
        (BLUE, ORANGE, GREY), strict=True):
    place.plot(numbers, values, color=color)
    place.set(title=title, xlabel="merges")
plt.show()
print(f"unknown words {len(unknown) / len(later):.1%}, unknown pieces: "
      f"{fresh[3]:.1%} after 30 merges, {fresh[-1]:.1%} after {numbers[-1]}")
assert fresh[3] < 0.02 < len(unknown) / len(later)

# %% [markdown]
# ## A vector from letters
#
# The hybrid model of chapter 5 goes another way. It keeps whole words. For a rare word it runs an
# LSTM over the letters. The last state of this LSTM is the word's vector (5.3.2). Where the
# translation needs a rare word, the decoder writes `<unk>`, and a second LSTM spells the word
# (5.3.3).

# %%
request = Request("we go* go* ||| on va*", Sizes(), np.random.default_rng(0))
example = hybrid_example(True, request)
parameters, x, y, rare, spellings = example.arguments
print("source ids", x, " target ids", y, " letters of the rare word", rare[0])

q, _, _ = represent(parameters, rare[0])
states, _ = encode(parameters, [*rare[0], 1], side=SOURCE)
figure, axes = plt.subplots(figsize=(5, 2))
rows = np.hstack([states[i][max(states[0])] for i in range(1, len(states))])
heat_map(axes, rows,
         "state after each letter; the last column is the word's vector",
         columns=["g", "o", "_"])
plt.show()
assert np.allclose(rows[:, -1:], q)

# %% [markdown]
# ## Two losses, one gradient
#
# Words have a loss, and letters have one. They are added (5.5):
#
# $$J = J_w + \alpha J_c$$
#
# So letters get a gradient in two ways. On the source side it comes from the loss of the *words*,
# through the vector $\mathbf{q}$. Here the same rare word occurs twice, and the gradients of both
# uses are added. On the target side the gradient comes from the loss of the spelling, and goes on
# into the decoder's state.

# %%
J, trace = hybrid_forward(parameters, x, y, rare, spellings, **example.named)
gradients = hybrid_backward(parameters, x, y, rare, spellings, trace)


def loss(p):
    return hybrid_forward(p, x, y, rare, spellings, **example.named)[0]


report = check_gradients(loss, parameters, gradients)
print(report.verdict, f"for all {len(parameters)} parameters")
sizes = {name: np.abs(gradients[name]).max()
         for name in gradients if "characters" in name}
for name, size in sizes.items():
    print(f"  {name:32} largest gradient {size:.3f}")
assert report.ok and min(sizes.values()) > 0

# %% [markdown]
# Here is the model line by line, with each intermediate gradient verified:
#
# In the stepper: `grads explore hybrid`.
#
# ## Which of the two?
#
# | | pieces | letters |
# |---|---|---|
# | what is added | a list of merges; the model stays as it is | two LSTMs, with their backward |
# | length of a sentence | grows | stays the same, but each rare word needs a loop |
# | can write any word | yes | yes |
# | common today | yes | no |
#
# ## Exercise 1: apply merges
#
# Write `cut`. You get a list of symbols, and the merges (pairs) in the order of learning. Return
# the list of pieces. Merge each pair everywhere, from the left, before you come to the next pair.

# %% tags=["check"]
# The check of exercise 1
@exercise(1, hint="for each merge go through the symbols from the left; where "
          "two neighbours are the pair, put one symbol in their place",
          mistakes=MISTAKES[1])
def check_exercise_1(answer):
    cases = (("abab", [("a", "b")]), ("aaa", [("a", "a")]),
             ("lower", [("l", "o"), ("lo", "w")]),
             ("abc", [("b", "c"), ("a", "b")]), ("xyz", []))
    result = [answer(list(symbols), list(merges)) for symbols, merges in cases]
    if is_empty(result):
        return NO_ANSWER
    for (symbols, merges), pieces in zip(cases, result, strict=True):
        if not isinstance(pieces, list | tuple):
            return f"expected a list of pieces, got {pieces!r}"
        expected = tuple(symbols)
        for pair in merges:
            expected = merge(expected, pair)
        if list(pieces) != list(expected):
            return (f"{symbols} by {merges}: expected {list(expected)}, got "
                    f"{list(pieces)}")
    return None


# %%
# Your turn
def answer_1(symbols, merges):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(symbols, merges):
    for left, right in merges:
        made = []
        for symbol in symbols:
            if made and made[-1] == left and symbol == right:
                made[-1] = left + right
            else:
                made.append(symbol)
        symbols = made
    return symbols


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: the first merge
#
# The text has `low` 5 times, `lower` twice, `newest` 6 times and `widest` 3 times (Sennrich's
# example). Which pairs occur 9 times? Write them as a set of pairs, such as `{("l", "o")}`. The
# last letter of a word carries `</w>`: `low` is `l`, `o`, `w</w>`.

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="which letters stand side by side in both newest and widest?",
          mistakes=MISTAKES[2], form='a set of pairs, as {("l", "o")}')
def check_exercise_2(answer):
    counts = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    frequency = Counter()
    for w, times in counts.items():
        for pair in pairwise(split(w)):
            frequency[pair] += times
    for pair in answer:
        if isinstance(pair, str):
            return f"{pair!r} is no pair{HINT}write ('l', 'o') for l, o"
        if frequency[tuple(pair)] != 9:
            return f"{tuple(pair)} occurs {frequency[tuple(pair)]} times"
    wanted = sum(times == 9 for times in frequency.values())
    missing = wanted - len({*map(tuple, answer)})
    return f"pairs that are missing: {missing}" if missing else None


# %%
# Your turn
answer_2 = None
check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
solution_2 = {("e", "s"), ("s", "t</w>")}
check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: add two gradients
#
# $J = J_w + \alpha J_c$. You get the gradients of $J_w$ and of $J_c$ (two dictionaries, from names
# to arrays) and $\alpha$. Where only one of the losses depends on a parameter, its name is in only
# one of the dictionaries. Return the gradient of $J$, a dictionary with all names.

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="go through the names of both; one that is missing counts as "
          "zero", mistakes=MISTAKES[3])
def check_exercise_3(answer):
    draw = np.random.default_rng(5)
    words = {name: draw.normal(size=2) for name in ("decoder", "output")}
    letters = {name: draw.normal(size=2) for name in ("decoder", "spelling")}
    expected = {"decoder": words["decoder"] + 0.5 * letters["decoder"],
                "output": words["output"],
                "spelling": 0.5 * letters["spelling"]}
    result = answer(dict(words), dict(letters), 0.5)
    if result is None:
        return NO_ANSWER
    if not isinstance(result, dict):
        return f"expected a dictionary, got {result!r}"
    if {*result} != {*expected}:
        return (f"expected the names {', '.join(expected)}, got "
                f"{', '.join(result) or 'none'}")
    faults = (difference(result[name], expected[name],
                         f"the gradient of {name}")
              for name in expected)
    return next(filter(None, faults), None)


# %%
# Your turn
def answer_3(words, letters, alpha):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(words, letters, alpha):
    return {name: words.get(name, 0.0) + alpha * letters.get(name, 0.0)
            for name in {*words, *letters}}


check_exercise_3(solution_3, "Solution")
