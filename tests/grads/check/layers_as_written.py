"""Layers as people write them: one style a class, with a layer, its inputs, what is checked, and a
mistake that can be made in it (`MISTAKES`: a text of this file, and what stands there instead)."""

from dataclasses import dataclass

import numpy as np

rng = np.random.default_rng(3)
CHECKED = {}  # style -> (layer, inputs, names of what is checked)
MISTAKES = {}


# --- weights as attributes, gradients beside them ---


class Affine:
    def __init__(self, n_in, n_out):
        self.W = rng.normal(size=(n_in, n_out))
        self.b = rng.normal(size=n_out)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dout):
        self.dW = self.x.T @ dout
        self.db = dout.sum(axis=0)
        return dout @ self.W.T


x = rng.normal(size=(5, 4))
CHECKED["attributes"] = Affine(4, 3), (x,), "x W b"
MISTAKES["attributes"] = "self.db = dout.sum(axis=0)", "self.db = dout.mean(axis=0)"


# --- dictionaries params and grads, a network that holds layers ---


class Layer:
    def __init__(self):
        self.params, self.grads = {}, {}


class Linear(Layer):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.params["w"] = rng.normal(size=(input_size, output_size))
        self.params["b"] = rng.normal(size=output_size)

    def forward(self, inputs):
        self.inputs = inputs
        return inputs @ self.params["w"] + self.params["b"]

    def backward(self, grad):
        self.grads["b"] = np.sum(grad, axis=0)
        self.grads["w"] = self.inputs.T @ grad  # of a dense layer
        return grad @ self.params["w"].T


class Tanh(Layer):
    def forward(self, inputs):
        self.inputs = inputs
        return np.tanh(inputs)

    def backward(self, grad):
        return grad * (1 - np.tanh(self.inputs) ** 2)


class NeuralNet:
    def __init__(self, layers):
        self.layers = layers

    def forward(self, inputs):
        for layer in self.layers:
            inputs = layer.forward(inputs)
        return inputs

    def backward(self, grad):
        for layer in reversed(self.layers):
            grad = layer.backward(grad)
        return grad


CHECKED["dictionaries"] = (
    NeuralNet([Linear(4, 6), Tanh(), Linear(6, 2)]), (x,),
    "inputs layers.0.w layers.0.b layers.2.w layers.2.b")
MISTAKES["dictionaries"] = "(1 - np.tanh(self.inputs) ** 2)", "(1 - self.inputs ** 2)"


# --- lists params and grads, written into in place; a network that concatenates them ---


class MatMul:
    def __init__(self, W):
        self.params = [W]
        self.grads = [np.zeros_like(W)]

    def forward(self, x):
        W, = self.params
        self.x = x
        return np.dot(x, W)

    def backward(self, dout):
        W, = self.params
        self.grads[0][...] = np.dot(self.x.T, dout)
        return np.dot(dout, W.T)


class Sigmoid:
    def __init__(self):
        self.params, self.grads = [], []
        self.out = None

    def forward(self, x):
        self.out = 1 / (1 + np.exp(-x))
        return self.out

    def backward(self, dout):
        return dout * (1.0 - self.out) * self.out


class TwoLayers:
    def __init__(self, i, h, o):
        self.layers = [MatMul(rng.normal(size=(i, h))), Sigmoid(), MatMul(rng.normal(size=(h, o)))]
        self.params, self.grads = [], []
        for layer in self.layers:
            self.params += layer.params
            self.grads += layer.grads

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, dout=1):
        for layer in self.layers[::-1]:
            dout = layer.backward(dout)
        return dout


CHECKED["lists"] = TwoLayers(4, 5, 2), (x,), "x layers.0.params.0 layers.2.params.0"
MISTAKES["lists"] = "np.dot(self.x.T, dout)", "np.dot(self.x.T, dout) / len(dout)"


# --- parameter objects, gradients that accumulate, a call that remembers its input ---


class Parameter:
    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class Module:
    def __call__(self, *args):
        self.saved_input = args[0]
        return self.forward(*args)

    def parameters(self):
        return [p for p in vars(self).values() if isinstance(p, Parameter)]

    def zero_grad(self):
        for p in self.parameters():
            p.grad = np.zeros_like(p.data)


class Scale(Module):
    def __init__(self, features):
        self.weight = Parameter(rng.normal(size=features))
        self.bias = Parameter(rng.normal(size=features))

    def forward(self, input):
        return input * self.weight.data + self.bias.data

    def backward(self, grad_output):
        self.weight.grad += (grad_output * self.saved_input).sum(axis=0)
        self.bias.grad += grad_output.sum(axis=0)
        return grad_output * self.weight.data


CHECKED["objects"] = Scale(4), (x,), "input weight bias"
MISTAKES["objects"] = "return grad_output * self.weight.data", "return grad_output"


# --- nothing is returned ---


class LayerDense:
    def __init__(self, n_inputs, n_neurons):
        self.weights = 0.3 * rng.normal(size=(n_inputs, n_neurons))
        self.biases = np.zeros((1, n_neurons))

    def forward(self, inputs):
        self.inputs = inputs
        self.output = np.dot(inputs, self.weights) + self.biases

    def backward(self, dvalues):
        self.dweights = np.dot(self.inputs.T, dvalues)
        self.dbiases = np.sum(dvalues, axis=0, keepdims=True)
        self.dinputs = np.dot(dvalues, self.weights.T)


CHECKED["attributes only"] = LayerDense(4, 3), (x,), "inputs weights biases"
MISTAKES["attributes only"] = "np.dot(dvalues, self.weights.T)", "np.dot(dvalues, -self.weights.T)"


# --- a backward that takes the learning rate and updates ---


class DenseUpdated:
    def __init__(self, input_size, output_size):
        self.weights = rng.normal(size=(output_size, input_size))
        self.bias = rng.normal(size=(output_size, 1))

    def forward(self, input):
        self.input = input
        return np.dot(self.weights, self.input) + self.bias

    def backward(self, output_gradient, learning_rate):
        weights_gradient = np.dot(output_gradient, self.input.T)
        input_gradient = np.dot(self.weights.T, output_gradient)
        self.weights -= learning_rate * weights_gradient
        self.bias -= learning_rate * output_gradient
        return input_gradient


CHECKED["updates"] = DenseUpdated(4, 3), (rng.normal(size=(4, 1)),), "input weights bias"
MISTAKES["updates"] = "self.bias -= learning_rate", "self.bias -= 0.5 * learning_rate"


class DenseUpdatedByDefault(DenseUpdated):
    def backward(self, output_gradient, learn_rate=0.01):
        input_gradient = np.dot(self.weights.T, output_gradient)
        self.weights -= learn_rate * np.dot(output_gradient, self.input.T)
        self.bias -= learn_rate * output_gradient
        return input_gradient


CHECKED["updates by default"] = DenseUpdatedByDefault(4, 3), (rng.normal(size=(4, 1)),), (
    "input weights bias")
MISTAKES["updates by default"] = "self.bias -= learn_rate", "self.bias -= 0.5 * learn_rate"


# --- losses: a scalar, a backward that needs no argument ---


class SoftmaxWithLoss:
    def forward(self, x, t):
        self.t = t
        e = np.exp(x - x.max(axis=1, keepdims=True))
        self.y = e / e.sum(axis=1, keepdims=True)
        return -np.sum(np.log(self.y[np.arange(len(t)), t])) / len(t)

    def backward(self, dout=1):
        dx = self.y.copy()
        dx[np.arange(len(self.t)), self.t] -= 1
        return dx / len(self.t)


class SquaredError:
    def __call__(self, prediction, target):
        self.difference = prediction - target
        return float(np.mean(self.difference ** 2)) if self.difference.dtype == float else (
            np.mean(self.difference ** 2))

    def backward(self):
        return 2 * self.difference / self.difference.size


t = np.array([0, 2, 1, 1, 3])
CHECKED["loss"] = SoftmaxWithLoss(), (x, t), "x"
MISTAKES["loss"] = "return dx / len(self.t)", "return dx"
CHECKED["squared error"] = SquaredError(), (x, rng.normal(size=(5, 4))), "prediction"
MISTAKES["squared error"] = "2 * self.difference / self.difference.size", (
    "2 * self.difference / len(self.difference)")


# --- state: running statistics, a mask, a hidden state kept between calls ---


class BatchNorm:
    def __init__(self, features):
        self.gamma, self.beta = rng.normal(size=features), np.zeros(features)
        self.dgamma = self.dbeta = None
        self.running_mean, self.running_var = np.zeros(features), np.ones(features)

    def forward(self, x, train=False):
        if not train:
            x_hat = (x - self.running_mean) / np.sqrt(self.running_var + 1e-5)
            return self.gamma * x_hat + self.beta
        mean, self.var = x.mean(axis=0), x.var(axis=0)
        self.running_mean = 0.9 * self.running_mean + 0.1 * mean
        self.running_var = 0.9 * self.running_var + 0.1 * self.var
        self.x_hat = (x - mean) / np.sqrt(self.var + 1e-5)
        return self.gamma * self.x_hat + self.beta

    def backward(self, dout):
        self.dgamma = (dout * self.x_hat).sum(axis=0)
        self.dbeta = dout.sum(axis=0)
        dx_hat = dout * self.gamma
        return (dx_hat - dx_hat.mean(axis=0) - self.x_hat * (dx_hat * self.x_hat).mean(axis=0)
                ) / np.sqrt(self.var + 1e-5)


class Dropout:
    def __init__(self, ratio=0.5):
        self.ratio = ratio

    def forward(self, x, train_flg=True):
        self.mask = np.random.rand(*x.shape) > self.ratio
        return x * self.mask

    def backward(self, dout):
        return dout * self.mask


class Recurrent:
    def __init__(self, D, H):
        self.Wx, self.Wh = rng.normal(size=(D, H)), rng.normal(size=(H, H))
        self.b = np.zeros(H)
        self.h = None

    def forward(self, xs):
        T = len(xs)
        self.xs, self.hs = xs, []
        self.h0 = self.h = np.zeros(self.b.shape) if self.h is None else self.h
        for step in range(T):
            self.h = np.tanh(xs[step] @ self.Wx + self.h @ self.Wh + self.b)
            self.hs.append(self.h)
        return np.array(self.hs)

    def backward(self, dhs):
        self.dWx, self.dWh = np.zeros_like(self.Wx), np.zeros_like(self.Wh)
        self.db = np.zeros_like(self.b)
        dxs, dh = np.zeros_like(self.xs), 0
        for step in reversed(range(len(self.xs))):
            da = (dhs[step] + dh) * (1 - self.hs[step] ** 2)
            before = self.hs[step - 1] if step > 0 else self.h0
            self.dWx += np.outer(self.xs[step], da)
            self.dWh += np.outer(before, da)
            self.db += da
            dxs[step], dh = da @ self.Wx.T, da @ self.Wh.T
        return dxs


CHECKED["train=True"] = BatchNorm(4), (x, True), "x gamma beta"
MISTAKES["train=True"] = "dx_hat = dout * self.gamma", "dx_hat = dout"
CHECKED["mask"] = Dropout(), (x,), "x"
MISTAKES["mask"] = "return dout * self.mask", "return dout * self.mask / self.ratio"
CHECKED["hidden state"] = Recurrent(4, 3), (x,), "xs Wx Wh b"
MISTAKES["hidden state"] = "self.dWh += np.outer", "self.dWh = np.outer"


# --- ids; a table whose gradient is added to ---


class Embedding:
    def __init__(self, V, D, xp=np):
        self.xp, self.W = xp, rng.normal(size=(V, D))
        self.dW = np.zeros_like(self.W)

    def forward(self, ids):
        self.ids = ids
        return self.W[ids]

    def backward(self, dout):
        self.xp.add.at(self.dW, self.ids, dout)


CHECKED["ids"] = Embedding(6, 3), (np.array([1, 4, 1]),), "W"
MISTAKES["ids"] = "self.xp.add.at(self.dW, self.ids, dout)", "self.dW[self.ids] += dout"


# --- several outputs, as arguments of the backward; gradients of weights that it returns ---


class Cell:
    def __init__(self, D, H):
        self.W, self.H = rng.normal(size=(D + H, 2 * H)), H

    def forward(self, x, h_prev, c_prev):
        z = np.concatenate([x, h_prev], axis=1)
        a = z @ self.W
        f = 1 / (1 + np.exp(-a[:, :self.H]))
        g = np.tanh(a[:, self.H:])
        c = f * c_prev + (1 - f) * g
        self.cache = z, f, g, c_prev, c
        return np.tanh(c), c

    def backward(self, dh, dc):
        z, f, g, c_prev, c = self.cache
        dc = dc + dh * (1 - np.tanh(c) ** 2)
        da = np.concatenate([dc * (c_prev - g) * f * (1 - f), dc * (1 - f) * (1 - g * g)], axis=1)
        dz = da @ self.W.T
        dW = z.T @ da
        return dz[:, :-self.H], dz[:, -self.H:], dc * f, dW


CHECKED["several outputs"] = (
    Cell(4, 3), (x, rng.normal(size=(5, 3)), rng.normal(size=(5, 3))), "x h_prev c_prev W")
MISTAKES["several outputs"] = "return dz[:, :-self.H], dz[:, -self.H:], dc * f, dW", (
    "return dz[:, :-self.H], dz[:, -self.H:], dc, dW")


# --- a cache that goes through the caller, gradients in a mapping ---


class FullyConnected:
    def __init__(self, n_in, n_out):
        self.weights = {"W": rng.normal(size=(n_in, n_out)), "b": np.zeros(n_out)}

    def forward(self, X):
        out = X @ self.weights["W"] + self.weights["b"]
        return out, (X, out)

    def backward(self, dout, cache):
        X, _ = cache
        grads = {"weights.W": X.T @ dout, "weights.b": dout.sum(axis=0)}
        return dout @ self.weights["W"].T, grads


CHECKED["cache"] = FullyConnected(4, 2), (x,), "X weights.W weights.b"
MISTAKES["cache"] = '"weights.b": dout.sum(axis=0)', '"weights.b": dout[0]'


# --- weights made by the first call; a number as a parameter; a list of layers ---


class LazyDense:
    W = None

    def __init__(self, units):
        self.units = units

    def __call__(self, x):
        if self.W is None:
            self.W = np.random.randn(x.shape[1], self.units)
        self.x = x
        return x @ self.W

    def backward(self, grad):
        self.grad_W = self.x.T @ grad
        return grad @ self.W.T


class PReLU:
    def __init__(self, alpha=0.25):
        self.alpha = alpha

    def forward(self, x):
        self.x = x
        return np.where(x > 0, x, self.alpha * x)

    def backward(self, dout):
        self.dalpha = (dout * np.where(self.x > 0, 0, self.x)).sum()
        return dout * np.where(self.x > 0, 1, self.alpha)


CHECKED["made later"] = LazyDense(3), (x,), "x W"
MISTAKES["made later"] = "self.grad_W = self.x.T @ grad\n", "self.grad_W = self.x.T @ grad ** 2\n"
CHECKED["a number"] = PReLU(), (x,), "x alpha"
MISTAKES["a number"] = "np.where(self.x > 0, 1, self.alpha)", "np.where(self.x > 0, 1, 0)"
CHECKED["a list"] = [Affine(4, 3), PReLU(), LayerDense(3, 2)], (x,), (
    "x layers.0.W layers.0.b layers.1.alpha layers.2.weights layers.2.biases")
MISTAKES["a list"] = "self.dweights = np.dot(self.inputs.T, dvalues)", (
    "self.dweights = np.dot(self.inputs.T, dvalues) / 2")


# --- private names; slots; gradients of attributes in a mapping; more returned than asked for ---


class Private:
    def __init__(self):
        self._W = rng.normal(size=(4, 3))

    def forward(self, x):
        self._x = x
        return x @ self._W

    def backward(self, d):
        self._dW = self._x.T @ d  # private
        return d @ self._W.T


class Slots:
    __slots__ = ("W", "W_gradient", "x")

    def __init__(self):
        self.W = rng.normal(size=(4, 3))

    def forward(self, x):
        self.x = x
        return x @ self.W

    def backward(self, d):
        self.W_gradient = self.x.T @ d
        return d @ self.W.T


class Attention:
    def __init__(self, size):
        self.Wq, self.Wk = rng.normal(size=(size, size)), rng.normal(size=(size, size))

    def __call__(self, q, k, mask=None):
        self.q, self.k = q, k
        self.Q, self.K = q @ self.Wq, k @ self.Wk
        scores = np.where(mask, self.Q @ self.K.T / 2, -1e9)
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        self.A = e / e.sum(axis=1, keepdims=True)
        return self.A @ k, self.A

    def backward(self, dcontext, dA=None):
        dA = dcontext @ self.k.T + (0 if dA is None else dA)
        dscores = self.A * (dA - (dA * self.A).sum(axis=1, keepdims=True)) / 2
        dQ, dK = dscores @ self.K, dscores.T @ self.Q
        self.grads = {"Wq": self.q.T @ dQ, "Wk": self.k.T @ dK}
        return dQ @ self.Wq.T, dK @ self.Wk.T + self.A.T @ dcontext


class Unnamed:
    def __init__(self):
        self.w, self.b = rng.normal(size=(4, 3)), np.zeros(3)

    def forward(self, a):
        self.cache = a
        return a @ self.w + self.b

    def backward(self, dz):
        return self.cache.T @ dz, dz.sum(axis=0), dz @ self.w.T


class Square:
    def forward(self, X):
        self.X = X
        self.Y_out, self.output = None, X * X

    def backward(self, dY):
        self.dX = 2 * self.X * dY


CHECKED["attributes in capitals"] = Square(), (x,), "X"
MISTAKES["attributes in capitals"] = "self.dX = 2 * self.X * dY", "self.dX = self.X * dY"
CHECKED["private names"] = Private(), (x,), "x _W"
MISTAKES["private names"] = "self._x.T @ d  # private", "0 * self._W"
CHECKED["slots"] = Slots(), (x,), "x W"
MISTAKES["slots"] = "self.W_gradient = self.x.T @ d", "self.W_gradient = self.x.T @ -d"
CHECKED["two outputs and a default"] = (
    Attention(4), (x, rng.normal(size=(6, 4)), rng.random((5, 6)) > 0.3), "q k Wq Wk")
MISTAKES["two outputs and a default"] = "(0 if dA is None else dA)", "0"
CHECKED["by shape"] = Unnamed(), (x,), "a w b"
MISTAKES["by shape"] = "return self.cache.T @ dz, dz.sum(axis=0)", (
    "return self.cache.T @ dz, dz.max(axis=0)")


# --- parameters in a dataclass, or told by methods ---


@dataclass
class Pair:
    kernel: np.ndarray
    offset: np.ndarray


class OfDataclasses:
    def __init__(self):
        self.params, self.grads = Pair(rng.normal(size=(4, 3)), np.zeros(3)), None

    def forward(self, x):
        self.x = x
        return x @ self.params.kernel + self.params.offset

    def backward(self, d):
        self.grads = Pair(self.x.T @ d, d.sum(axis=0))  # of a pair
        return d @ self.params.kernel.T


class WithMethods:
    def __init__(self):
        self._held = [rng.normal(size=(4, 3)), np.zeros(3)]

    def params(self):
        return {"W": self._held[0], "b": self._held[1]}

    def grads(self):
        yield from self._filled

    def forward(self, x):
        self._x = x
        return x @ self._held[0] + self._held[1]

    def backward(self, d):
        self._filled = [self._x.T @ d, d.sum(axis=0)]
        return d @ self._held[0].T

    def parameters(self):
        return self._held


CHECKED["dataclasses"] = OfDataclasses(), (x,), "x kernel offset"
MISTAKES["dataclasses"] = "d.sum(axis=0))  # of a pair", "d.mean(axis=0))"
CHECKED["methods"] = WithMethods(), (x,), "x parameters.0 parameters.1"
MISTAKES["methods"] = "[self._x.T @ d, d.sum(axis=0)]", "[self._x.T @ d, d.mean(axis=0)]"


# --- a weight as it is used, kept under the name of the parameter; other names in the return ---


class Pruned:
    def __init__(self):
        self.params = {"W": rng.normal(size=(4, 3)), "scale": np.ones(3)}
        self.mask, self.grads = rng.random((4, 3)) > 0.3, {}

    def forward(self, x):
        self.x, self.W, self.scale = x, self.params["W"] * self.mask, self.params["scale"].copy()
        return x @ self.W * self.scale

    def backward(self, d):
        self.grads["W"] = self.x.T @ (d * self.scale) * self.mask
        self.grads["scale"] = (d * (self.x @ self.W)).sum(axis=0)
        return d * self.scale @ self.W.T


class ScaleAndShift:
    def __init__(self):
        self.beta, self.gamma = rng.normal(size=4), rng.normal(size=4)

    def forward(self, x):
        self.x = x
        return self.gamma * x + 2 * self.beta

    def backward(self, d):
        dgamma, dbeta = (d * self.x).sum(axis=0), d.sum(axis=0)
        grads = np.asarray(dgamma), 2 * dbeta.copy()
        return (d * self.gamma, *grads)


CHECKED["as it is used"] = Pruned(), (x,), "x W scale"
MISTAKES["as it is used"] = "(d * self.scale) * self.mask", "(d * self.scale)"
CHECKED["scaled in the return"] = ScaleAndShift(), (x,), "x beta gamma"
MISTAKES["scaled in the return"] = "2 * dbeta.copy()", "dbeta.copy()"


# --- parameters in a mapping of any name, gradients in one of the same keys ---


class Filter:
    def __init__(self):
        self.coef, self.grad = {"b": rng.normal(size=4), "a": np.array([0.5])}, {}

    def forward(self, x):
        self.x = x
        return x @ self.coef["b"] * self.coef["a"]

    def backward(self, d):
        self.grad["b"] = self.x.T @ d * self.coef["a"]
        self.grad["a"] = np.array([d @ (self.x @ self.coef["b"])])
        return np.outer(d, self.coef["b"]) * self.coef["a"]


CHECKED["mappings of equal keys"] = Filter(), (x,), "x coef.b coef.a"
MISTAKES["mappings of equal keys"] = 'self.x.T @ d * self.coef["a"]', "self.x.T @ d"
