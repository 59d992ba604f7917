# %% [markdown]
# # 0. The chain rule, on numbers
#
# You need no matrices for this lesson, and you need not have read the thesis. By the end you will
# have differentiated a small recurrent network by hand, one number at a time, and written a program
# that does the same for any expression. The last section before the exercises says why the other
# lessons do without that program.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
from drawing import BLUE, GREY, ORANGE, heat_map
from exercises import difference, exercise
from mistakes import CHAIN as MISTAKES

from grads.check import check_gradients

# %% [markdown]
# ## What a derivative is
#
# Change the input of a function by a little, and the output changes by a little. The derivative is
# the rate: how much the output changes for each unit of the input. A rate can be measured.

# %%
def rate(f, x, step=1e-6):
    """The rate of f at x, measured by moving the input to both sides."""
    return (f(x + step) - f(x - step)) / (2 * step)


x = np.linspace(-3, 3, 121)
figure, axes = plt.subplots(figsize=(6, 2.8))
axes.plot(x, np.tanh(x), color=BLUE, label="tanh(x)")
axes.plot(x, 1 - np.tanh(x) ** 2, color=ORANGE,
          label="its derivative, 1 - tanh(x)^2")
points = np.array([-2.0, -0.5, 0.0, 1.0])
axes.plot(points, [rate(math.tanh, point) for point in points], "o", color=GREY,
          label="measured")
axes.set(title="a function and its rate of change", xlabel="x")
axes.legend()
plt.show()

# %% [markdown]
# ## A chain
#
# A neuron reads $x$, multiplies it by a weight $w$, adds $b$ and squashes the result. Its loss is
# the square of the distance to what we want, $y$:
#
# $$a = w x + b, \qquad h = \tanh(a), \qquad l = (h - y)^2$$
#
# How does $l$ change with $w$? Go back one step at a time. Each step multiplies by its own rate:
#
# $$\frac{dl}{dw} = \frac{dl}{dh} \cdot \frac{dh}{da} \cdot \frac{da}{dw}
#   = 2(h - y) \cdot (1 - h^2) \cdot x$$
#
# In all lessons $dh$ stands for $\frac{dl}{dh}$, the gradient of the loss with respect to $h$, and
# $da$, $dw$ and so on are named in the same way. The backward pass is then a list of assignments,
# in the reverse order of the forward pass.

# %%
w, b, x, y = 0.5, -0.2, 1.5, 1.0
a = w * x + b                                   # forward
h = np.tanh(a)
l = (h - y) ** 2

dh = 2 * (h - y)                                # backward: the last line first
da = (1 - h**2) * dh
dw = x * da
db = 1.0 * da
dx = w * da
print(f"dw by hand {dw:.6f}, measured "
      f"{rate(lambda w: (np.tanh(w * x + b) - y) ** 2, w):.6f}")

# %% [markdown]
# The three gradients share $da$, which is computed once. That is the advantage of going backward:
# one pass gives the gradient of every weight.
#
# ## A value that is used twice
#
# In $l = h \cdot h$ the value $h$ is used twice. A change of $h$ changes both factors, so both
# effects add up: $dh = h \, dl + h \, dl$. **Every use adds a term.** Forgetting one of them is the
# most frequent mistake in a backward pass.
#
# A recurrent network uses its weights at every time step. Here is the smallest one, whose state is
# a single number:
#
# $$h_t = \tanh(w h_{t-1} + u x_t), \qquad l = (h_T - y)^2$$

# %%
def forward(w, u, xs, y):
    """The loss, and the states h_0 .. h_T."""
    h = [0.0]
    for x in xs:
        h.append(np.tanh(w * h[-1] + u * x))
    return (h[-1] - y) ** 2, h


def backward(w, u, xs, y, h):
    """dw, du, and dh_t for t = 0 .. T."""
    dw, du, dh = 0.0, 0.0, {len(xs): 2 * (h[-1] - y)}
    for t in range(len(xs), 0, -1):
        da = (1 - h[t] ** 2) * dh[t]
        dw += h[t - 1] * da                     # a term for each use of w
        du += xs[t - 1] * da
        dh[t - 1] = w * da                      # and on to the step before
    return dw, du, dh


w, u, xs, y = 0.9, 0.7, [1.0, -0.5, 0.3, 0.8], 0.2
l, h = forward(w, u, xs, y)
dw, du, dh = backward(w, u, xs, y, h)
print(check_gradients(lambda w, u: forward(w, u, xs, y)[0], [w, u], [dw, du]))

# %% [markdown]
# `check_gradients` measures the same rates, far more exactly than `rate` does (lesson 3 says how),
# and compares them with our gradients.
#
# ## A long chain
#
# On its way from the last state to the first the gradient is multiplied by $w (1 - h_t^2)$ at every
# step. A product of many factors below one is next to nothing. A product of many factors above one
# is huge.

# %%
T = 30
figure, axes = plt.subplots(figsize=(6, 2.8))
for weight, color in ((0.5, BLUE), (0.9, GREY), (1.3, ORANGE)):
    dh = {T: 1.0}
    for t in range(T, 0, -1):
        # the case of h near 0, where the factor 1 - h^2 is near 1
        dh[t - 1] = weight * dh[t]
    axes.semilogy([T - t for t in dh], list(dh.values()), color=color,
                  label=f"w = {weight}")
axes.set(title="a gradient of 1, some steps back", xlabel="steps back")
axes.legend()
plt.show()

# %% [markdown]
# This is why a recurrent network finds it hard to learn from words that lie far back. Lesson 1
# meets the problem with vectors, and lesson 2 has the remedy. Here is the last line of the loop in
# `backward`, with vectors:
#
# In the stepper: `grads explore rnn`, at `dh_prev = dz[len(x) :]`.
#
# ## A program that does it
#
# Each step of a backward pass needs two things only: the gradient of its result, and its own rate.
# So a program can make the backward pass. A `Number` remembers which numbers it was made of, and
# how fast it changes with each of them. `backward` starts at the result, goes through the numbers
# in reverse order, and adds a term for each use. This is called *reverse mode*. PyTorch and JAX
# work in this way.

# %%
class Number:
    """A number that knows what it was made of."""

    def __init__(self, value, parts=()):
        self.value = value
        # pairs (part, rate): a number that this one was made of, and how fast
        # this one changes with that part
        self.parts = parts
        self.d = 0.0           # the gradient of the loss with respect to this

    def __add__(self, other):
        return Number(self.value + other.value, ((self, 1.0), (other, 1.0)))

    def __sub__(self, other):
        return Number(self.value - other.value, ((self, 1.0), (other, -1.0)))

    def __mul__(self, other):
        return Number(self.value * other.value,
                      ((self, other.value), (other, self.value)))

    def __truediv__(self, other):
        ratio = self.value / other.value
        return Number(ratio,
                      ((self, 1 / other.value), (other, -ratio / other.value)))

    def tanh(self):
        h = math.tanh(self.value)
        return Number(h, ((self, 1 - h**2),))

    def exp(self):
        e = math.exp(self.value)
        return Number(e, ((self, e),))

    def log(self):
        return Number(math.log(self.value), ((self, 1 / self.value),))

    def backward(self):
        """Set d in every number that this one was made of, and return them."""
        order = in_order(self)
        for number in order:
            number.d = 0.0
        self.d = 1.0
        # a number's turn comes when its own gradient is complete
        for number in reversed(order):
            for part, part_rate in number.parts:
                part.d += part_rate * number.d  # += : every use adds a term
        return order


def in_order(last):
    """All numbers that `last` was made of, and itself, each after its parts."""
    order, seen, waiting = [], set(), [(last, False)]
    while waiting:
        number, is_ready = waiting.pop()
        if is_ready:
            order.append(number)
        elif id(number) not in seen:
            seen.add(id(number))
            waiting.append((number, True))
            waiting.extend((part, False) for part, _ in number.parts)
    return order


def with_numbers(w, u, xs, y):
    """The recurrent network again. Only the forward pass is written."""
    w, u, h = Number(w), Number(u), Number(0.0)
    for x in xs:
        h = (w * h + u * Number(x)).tanh()
    distance = h - Number(y)
    return distance * distance, w, u


loss, w_number, u_number = with_numbers(w, u, xs, y)
order = loss.backward()
print(f"by hand    dw {dw:.12f}  du {du:.12f}")
print(f"by program dw {w_number.d:.12f}  du {u_number.d:.12f}, from "
      f"{len(order)} numbers")
assert math.isclose(dw, w_number.d) and math.isclose(du, u_number.d)

# %% [markdown]
# ## Why the other lessons do without it
#
# The program is right. The other lessons write their backward passes by hand all the same, for
# three reasons.
#
# **A formula says more than a number.** Compare the two for a softmax over four scores with the
# loss $-\log p_y$. The program goes through each exponential, each quotient, the logarithm. By hand
# all of it shrinks to $d\mathbf{s} = \mathbf{p} - \mathbf{1}_y$: the probabilities, with 1
# subtracted at the right word. Now you know what training does: it raises the score of the right
# word in proportion to the probability that this word still lacks.

# %%
scores = [Number(value) for value in (1.0, -0.5, 2.0, 0.3)]
exponentials = [score.exp() for score in scores]
total = exponentials[0] + exponentials[1] + exponentials[2] + exponentials[3]
p = [e / total for e in exponentials]
order = (Number(0.0) - p[2].log()).backward()
by_hand = [q.value - (k == 2) for k, q in enumerate(p)]
print("by program", np.round([score.d for score in scores], 6), "from",
      len(order), "numbers")
print("by hand   ", np.round(by_hand, 6))

figure, axes = plt.subplots(figsize=(6, 1.6))
heat_map(axes, np.array([[q.value for q in p], by_hand]),
         "four words; the third is right", ["p", "ds = p - 1_y"],
         [f"word {k}" for k in (1, 2, 3, 4)])
plt.show()
assert np.allclose([score.d for score in scores], by_hand)

# %% [markdown]
# **A formula can be made fast.** The program makes an object for each multiplication. One time step
# of an LSTM with 64 units and 64 inputs multiplies $4 \cdot 64 \cdot 128 = 32{,}768$ times. With
# matrices all of these are one product, and the backward pass needs two (lesson 6).
#
# **A formula can be checked.** A backward pass that is written out line by line can be compared
# with measured rates, line by line. Lesson 3 does that.
#
# ## Exercise 1: a rate
#
# The sigmoid is $s = 1 / (1 + e^{-a})$. Return its rate, $\frac{ds}{da}$, as a function of $s$
# alone.

# %% tags=["check"]
# The check of exercise 1
@exercise(1,
          hint="differentiate 1 / (1 + e^-a) with respect to a, and write e^-a "
          "as 1/s - 1",
          mistakes=MISTAKES[1])
def check_exercise_1(answer):
    a = np.linspace(-3, 3, 7)
    s = 1 / (1 + np.exp(-a))
    return difference(answer(s), np.exp(-a) / (1 + np.exp(-a)) ** 2, "the rate")


# %%
# Your turn
def answer_1(s):
    return None


check_exercise_1(answer_1)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 1
def solution_1(s):
    return s * (1 - s)


check_exercise_1(solution_1, "Solution")

# %% [markdown]
# ## Exercise 2: count the uses
#
# $a = w x$, $h = \tanh(a)$, $l = h \cdot a + w$. How many terms does each gradient have?
# Return three numbers: for $dh$, $da$ and $dw$.

# %% tags=["check"]
# The check of exercise 2
@exercise(2, hint="go through the three lines and count where each of h, a and "
          "w is read", mistakes=MISTAKES[2], form="three numbers")
def check_exercise_2(answer):
    if np.shape(answer) != (3,):
        return f"expected three numbers, got {answer!r}"
    terms = [float(count) for count in answer]
    return (None if terms == [1, 2, 2]
            else f"{answer} is not the number of uses of h, a and w")


# %%
# Your turn
answer_2 = None
check_exercise_2(answer_2)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 2
# a is read by tanh and by the product, w by the first line and by the last
solution_2 = 1, 2, 2
check_exercise_2(solution_2, "Solution")

# %% [markdown]
# ## Exercise 3: two lines of a backward pass
#
# A gate lets a part of the new value in, and keeps a part of the old one:
# $h = z \, n + (1 - z) \, o$. Given $dh$, return $dz$, $dn$ and $do$. (This is the heart of the
# unit of lesson 8.)

# %% tags=["check"]
# The check of exercise 3
@exercise(3, hint="h has two products. Each factor's gradient is dh times the "
          "other factor, and z is in both products", mistakes=MISTAKES[3])
def check_exercise_3(answer):
    z, n, o, dh = 0.3, 0.9, -0.4, 1.7
    result = answer(dh, z, n, o)
    return difference(result, ((n - o) * dh, z * dh, (1 - z) * dh))


# %%
# Your turn
def answer_3(dh, z, n, o):
    return None


check_exercise_3(answer_3)

# %% [markdown]
# ### Solution

# %% tags=["solution"]
# The solution of exercise 3
def solution_3(dh, z, n, o):
    return (n - o) * dh, z * dh, (1 - z) * dh


check_exercise_3(solution_3, "Solution")
