"""Factored input and deep fusion: the literal steps against complex step, the kernels against the
literal steps."""

import numpy as np
from literal import assert_close

from backend.workspace import Workspace
from grads.derivations.deep_output import Output
from grads.derivations.fusion import (
    Gate,
    factored_embed,
    factored_embed_grad,
    fused_output,
    fused_output_grad,
)
from lstm.stack import Stack
from nmt.data.batches import Side
from nmt.models.encoder import encoder_backward, encoder_forward
from nmt.models.heads.deep_output import deep_backward, deep_forward
from nmt.models.heads.fusion import gate_backward, gate_forward

H, E, HE, HL, M, V, N = 3, 2, 4, 5, 2, 6, 4
STEP = 1e-30


def drawn():
    """Columns of N predictions, and weights."""
    rng = np.random.default_rng(2)
    columns = [rng.normal(size=(N, width, 1)) for width in (H, E, HE, HL)]
    output = Output(*(rng.normal(size=shape) for shape in (
        (V, M), (2 * M, H), (2 * M, E), (2 * M, HE), (2 * M, 1), (V, 1))))
    gate = Gate(rng.normal(size=(2 * M, HL)), rng.normal(size=(HL, 1)), rng.normal(size=(1, 1)))
    return columns, output, gate


def test_the_literal_step_by_complex_step() -> None:
    columns, output, gate = drawn()
    parts = [column[0] for column in columns]
    _, kept = fused_output(3, *parts, output, gate)
    *inputs, d_output, d_gate = fused_output_grad(3, *parts, output, gate, kept)
    arguments = [*parts, *output, *gate]
    for k, d in enumerate([*inputs, *d_output, *d_gate]):
        numeric = np.zeros(arguments[k].shape)
        for place in np.ndindex(arguments[k].shape):
            moved = [np.array(argument, complex) for argument in arguments]
            moved[k][place] += 1j * STEP
            l = fused_output(3, *moved[:4], Output(*moved[4:10]), Gate(*moved[10:]))[0]
            numeric[place] = np.asarray(l).imag.item() / STEP
        assert_close(d, numeric)


def test_the_kernels_of_deep_fusion_are_the_literal_step() -> None:
    """Kernels have rows in place of columns; the upstream gradient is that of the prediction."""
    columns, output, gate = drawn()
    weights = {"output.U_o": output.U_o, "output.V_o": output.V_o, "output.C_o": output.C_o,
               "output.L_o": gate.L_o, "output.b_t": np.asarray(output.b_t)[:, 0],
               "output.v_g": gate.v_g[:, 0], "output.b_g": gate.b_g[0]}
    rows = [column[:, :, 0] for column in columns]
    gated, gate_cache = gate_forward("output", weights, rows[3])
    t, cache = deep_forward("output", weights, (*rows[:3], gated), "maxout")
    words, dt, sums, expected = [2, 0, 5, 1], np.zeros((N, M)), [], []
    for n, word in enumerate(words):
        parts = [column[n] for column in columns]
        l, kept = fused_output(word, *parts, output, gate)
        s = output.W_o @ t[n][:, None] + output.b
        assert_close(l, float(np.log(np.exp(s).sum()) - s[word, 0]))
        ds = kept.p.copy()
        ds[word] -= 1.0
        dt[n] = (output.W_o.T @ ds)[:, 0]
        *inputs, d_output, d_gate = fused_output_grad(word, *parts, output, gate, kept)
        expected.append(inputs)
        sums.append((*d_output[1:5], *d_gate))
    (*d_parts, d_gated), gradients = deep_backward(dt, cache)
    d_lm, gate_gradients = gate_backward("output", d_gated, gate_cache)
    for ours, theirs in zip([*d_parts, d_lm], zip(*expected, strict=True), strict=True):
        assert_close(ours, np.stack(theirs)[:, :, 0])
    names = ("U_o", "V_o", "C_o", "b_t", "L_o", "v_g", "b_g")
    for name, theirs in zip(names, zip(*sums, strict=True), strict=True):
        ours = (gradients | gate_gradients)[f"output.{name}"]
        assert_close(ours, np.asarray(sum(theirs)).reshape(ours.shape))


def test_the_kernel_of_factors_is_the_literal_step() -> None:
    rng = np.random.default_rng(3)
    tables = [rng.normal(size=shape) for shape in ((5, 2), (3, 1), (2, 3))]
    ids = [np.array([[4, 2], [2, 2]]), np.array([[0, 1], [1, 1]]), np.array([[1, 0], [1, 1]])]
    names = ("encoder.W_e", "encoder.W_tag", "encoder.W_case")
    parameters = dict(zip(names, tables, strict=True)) | {"encoder.0.W": np.zeros((2, 8))}
    source = Side(ids[0], np.array([2, 2]), factors=np.array(ids[1:]))
    _, _, cache = encoder_forward("encoder", parameters, source, Stack("rnn", 1, 2, biases=False),
                                  {}, Workspace(), factors=("tag", "case"))
    x = cache.x
    dx = rng.normal(size=x.shape)
    gradients = encoder_backward(None, [[(None,)]], cache, dx)  # dx: from others
    actual = [gradients[name] for name in names]
    literal = dict(zip("abc", tables, strict=True))
    expected = {name: np.zeros_like(table) for name, table in literal.items()}
    for place in np.ndindex(2, 2):
        factors = [factor_ids[place] for factor_ids in ids]
        assert_close(x[place], factored_embed(factors, literal)[:, 0])
        expected = factored_embed_grad(factors, dx[place][:, None], expected)
    for gradient, total in zip(actual, expected.values(), strict=True):
        assert_close(gradient.dense(), total)
