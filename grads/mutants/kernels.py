"""The mistakes of `grads.mutants` in the kernels of `backend`, `lstm` and `attention`."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake: in the source of `function`, `new` stands where `old` stood."""

    name: str
    function: str  # dotted path
    old: str  # occurs exactly once
    new: str
    entry: str  # the entry of the catalogue that must notice
    why: str  # how people come to make it
    shape: str = "ragged"  # of the entry's case, in `grads.case.SHAPES`


CELL = "lstm.lstm.lstm_cell_backward"
STEP = "lstm.lstm.lstm_step_backward"
TURN = "lstm.lstm.lstm_turn_backward"
SEQUENCE = "lstm.lstm.lstm_backward"
STACK = "lstm.stack.stack_backward"
LOSS = "lstm.prediction.prediction_backward"

ROWS = (
    Mutant("duplicate ids overwritten", "backend.rows._sum_on_host",
           "values[n] += rows[order[starts[n] + k : ends[n]]].sum(axis=0)", "pass", "embedding",
           "dW[ids] = d_rows keeps one occurrence of a repeated word"),
    Mutant("duplicate ids averaged", "backend.rows._sum_on_host",
           "return values", "return values / counts[:, None]", "embedding",
           "mean instead of sum over the occurrences of a word"),
    Mutant("rows summed unsorted", "backend.rows._sum_on_host", "rows[order[starts]]",
           "rows[starts]", "embedding",
           "segments of the sorted rows taken from the rows as they came"),
)  # fmt: skip

PREDICTION = (
    Mutant("printed sign of ds", "lstm.prediction.cross_entropy",
           "s[row, targets] -= 1.0", "s[row, targets] -= 1.0; s *= -1.0", "prediction",
           "Algorithm 1 line 2 as printed: 1_y - p (erratum 1)"),
    Mutant("one-hot forgotten", "lstm.prediction.cross_entropy",
           "s[row, targets] -= 1.0", "pass", "prediction",
           "ds = p: the logit of the target is a term of its own"),
    Mutant("softmax not normalised", "lstm.prediction.cross_entropy",
           "s *= (1.0 / total)[:, None]", "pass", "prediction",
           "e^(s - max) taken for p in the gradient: shift and total left out"),
    Mutant("mean over rows", LOSS, "product(ds.T, h)", "product(ds.T, h / h.shape[0])",
           "prediction", "the loss is a sum, its weight gradient is divided by the batch"),
    Mutant("upstream of the loss forgotten", LOSS, "dh *= d_loss", "pass", "prediction",
           "d_loss reaches the weights but not h"),
    Mutant("output bias without gradient", LOSS, "ds.sum(axis=0)", "0.0 * ds.sum(axis=0)",
           "output, bias", "the bias was added to the forward later"),
    Mutant("output bias averaged", LOSS, "ds.sum(axis=0)", "ds.mean(axis=0)", "output, bias",
           "mean instead of sum: off by the number of words"),
)  # fmt: skip

LSTM = (
    Mutant("dc not accumulated", CELL, "dc += d_tanh", "dc[...] = d_tanh", "lstm sequence",
           "dc_t = instead of dc_t +=: nothing arrives through c_{t+1}"),
    Mutant("dc not carried", CELL, "dc *= f", "dc[...] = 0.0", "lstm step",
           "the memory cell's own path through time forgotten"),
    Mutant("dc carried without f", CELL, "dc *= f", "pass", "lstm cell",
           "dc_{t-1} = dc_t, as if the cell could not forget"),
    Mutant("dc carried through the input gate", CELL, "dc *= f", "dc *= i", "lstm cell",
           "wrong gate in dc_{t-1}"),
    Mutant("dc carried before it is used", CELL,
           "xp.multiply(h_hat, dc, out=du)", "dc *= f; xp.multiply(h_hat, dc, out=du); dc /= f",
           "lstm step", "in place, one line too early: di sees dc_{t-1}"),
    Mutant("tanh'(c) forgotten", CELL, "dc -= du", "pass", "lstm cell",
           "dc_t += o o dh_t, without the slope"),
    Mutant("tanh' of the wrong activation", CELL, "xp.multiply(tanh_c, tanh_c, out=du)",
           "xp.multiply(h_hat, h_hat, out=du)", "lstm cell",
           "1 - h_hat^2 where 1 - tanh(c)^2 belongs"),
    Mutant("df from c_t", CELL, "xp.multiply(c_prev, dc, out=du)",
           "xp.multiply(tanh_c, dc, out=du)", "lstm cell",
           "off by one in time: the new cell where the old one was multiplied"),
    Mutant("wrong gate in di", CELL, "xp.multiply(h_hat, dc, out=du)",
           "xp.multiply(f, dc, out=du)", "lstm step", "copied from the line of dc_{t-1}"),
    Mutant("wrong gate in dh_hat", CELL, "xp.multiply(i, dc, out=du)",
           "xp.multiply(o, dc, out=du)", "lstm cell", "i and o confused"),
    Mutant("do from dc", CELL, "xp.multiply(tanh_c, dh, out=du)", "xp.multiply(tanh_c, dc, out=du)",
           "lstm cell", "o acts on h, not on c"),
    Mutant("gate order of cuDNN", CELL, "dz_i, dz_f, dz_o, dz_h_hat = _blocks(dz)",
           "dz_i, dz_f, dz_h_hat, dz_o = _blocks(dz)", "lstm step",
           "i, f, g, o in the backward, i, f, o, h_hat in the forward"),
    Mutant("g' forgotten", CELL, "dz_f *= du", "dz_f[...] = du", "lstm cell",
           "du used where the gradient at the pre-activation belongs"),
    Mutant("g' of a gate on h_hat", CELL, "xp.subtract(1.0, ", "xp.subtract(u[:, 3 * H :], ",
           "lstm cell", "u (1 - u) on all four blocks; the fourth is a tanh"),
    Mutant("upstream dc written into", STEP, "dc.copy()", "dc", "lstm step",
           "the buffer of the caller is taken for scratch space"),
    Mutant("columns of x and h swapped", STEP, "weight_gradient(dz, x, h_prev)",
           "weight_gradient(dz, h_prev, x)", "lstm step", "dT stacked as [T_h T_x]"),
    Mutant("dh_prev through the columns of x", STEP, "dz @ T[:, E:]", "dz @ T[:, :-E]",
           "lstm step", "wrong slice of the joined weights, of the right shape"),
    Mutant("bias gradient of one sentence", STEP, "dz.sum(axis=0)", "dz[0].copy()",
           "lstm step, bias", "written for one example, never summed over the batch"),
    Mutant("dh_prev dropped", SEQUENCE, "xp.matmul(dz[t], T_h, out=dh)", "dh[...] = 0.0",
           "lstm sequence", "Algorithm 2 stops at dT: no dh_{t-1} (erratum 2)"),
    Mutant("dh used before the recurrent part", TURN, "lstm_cell_backward(dh, dc, ",
           "lstm_cell_backward(dh if d_out is None else d_out, dc, ", "lstm sequence",
           "the cell is given what comes from above only"),
    Mutant("dh overwritten", TURN, "dh += d_out", "dh[...] = d_out", "lstm sequence",
           "= instead of +=: the gradient from t + 1 is lost"),
    Mutant("last h's upstream written into", SEQUENCE, "dh_last.copy()", "dh_last",
           "lstm sequence", "accumulates into the caller's array"),
    Mutant("last cell ignored", SEQUENCE, "dc_last.copy()", "0.0 * dc_last",
           "lstm sequence, reverse", "one of three upstream gradients left out"),
    Mutant("padded steps not masked", TURN, "xp.copyto(dz, 0.0, where=dead)", "pass",
           "lstm sequence", "padding adds to dT, db and dx"),
    Mutant("padding one step late", SEQUENCE, "t >= padding.full", "t > padding.full",
           "lstm sequence", "off by one: the first ragged step is taken for full"),
    Mutant("backward in forward order", SEQUENCE, "reversed(loop_order(steps, reverse))",
           "loop_order(steps, reverse)", "lstm sequence", "the loop's range not turned round"),
    Mutant("reverse direction not reversed", SEQUENCE, "reversed(loop_order(steps, reverse))",
           "reversed(loop_order(steps, False))", "lstm sequence, reverse",
           "the second direction goes back in the order of the first"),
    Mutant("h_t for h_{t-1}", SEQUENCE, "h[1:] if reverse else h[:-1]",
           "h[:-1] if reverse else h[1:]", "lstm sequence", "off by one in dT_h"),
    Mutant("bias gradient of one step", SEQUENCE, "dz_rows.sum(axis=0)", "dz[0].sum(axis=0)",
           "lstm sequence", "no accumulation over time"),
)  # fmt: skip

RECURRENCE = (
    Mutant("states of the other end", "lstm.recurrence.weight_gradient",
           "xp.matmul(dz.T, h_prev, ", "xp.matmul(dz.T, h_prev[::-1], ",
           "rnn sequence, reverse", "dz in one order of time, h in the other"),
    Mutant("wrong slice for dx", "lstm.recurrence.input_gradient", "T[:, :E]", "T[:, -E:]",
           "lstm sequence", "the last E columns: x taken to stand after h"),
    Mutant("padding stops the gradient", "lstm.recurrence.carry_gradient",
           "carried, now)", "tuple(0.0 * a for a in carried), now)", "rnn sequence",
           "what a padded step hands on is masked out with the rest"),
    Mutant("mask inverted", "lstm.recurrence.carry_gradient", "padding.dead[t]",
           "padding.live[t]", "rnn sequence", "live for dead"),
    Mutant("tanh' is the square", "lstm.rnn.rnn_cell_backward",
           "xp.subtract(1.0, dz, out=dz)", "pass", "rnn cell", "1 - forgotten"),
    Mutant("sigmoid' for tanh'", "lstm.rnn.rnn_cell_backward", "xp.subtract(1.0, dz, out=dz)",
           "xp.subtract(h, dz, out=dz)", "rnn cell", "h (1 - h): the unit was a sigmoid once"),
    Mutant("tanh' one step early", "lstm.rnn.rnn_backward",
           "rnn_cell_backward(dh, h[now], dz[t])", "rnn_cell_backward(dh, h[t], dz[t])",
           "rnn sequence", "h holds h_0 first, so h[t] is h_{t-1}"),
    Mutant("recurrent weights transposed", "lstm.rnn.rnn_backward", "T_h = T[:, E:]",
           "T_h = T[:, E:].T", "rnn sequence", "square, so no shape complains"),
)  # fmt: skip

STACKS = (
    Mutant("third layer misplaced", STACK, "d_initial.insert(0, d_states)",
           "d_initial.insert(-1, d_states)", "translator, 3 layers",
           "right for two layers, where -1 and 0 are the same place"),
    Mutant("dropout mask forgotten", STACK, "dx *= masks[layer]", "pass",
           "rnn stack, dropout", "the mask is drawn and used in the forward only"),
    Mutant("dropout mask applied twice", STACK, "dx *= masks[layer]",
           "dx *= masks[layer] * masks[layer]", "lstm stack, dropout",
           "once by the layer, once by its caller: off by 1 / (1 - p)"),
    Mutant("one direction lost", STACK, "else dx + dx_d", "else dx_d",
           "rnn stack, bidirectional", "dx overwritten by the second direction"),
    Mutant("directions swapped", "lstm.stack._split", "[dh[:, :, :H], dh[:, :, H:]]",
           "[dh[:, :, H:], dh[:, :, :H]]", "rnn stack, bidirectional",
           "halves of [forward; backward] exchanged"),
    Mutant("dx of the upper layer dropped", STACK, "_split(dx, len(layers[layer]))",
           "_split(dx if layer == len(layers) - 1 else None, len(layers[layer]))", "rnn stack",
           "Algorithm 4 line 15 left out: only the top layer learns from the loss"),
    Mutant("last states of the top layer for all", STACK, "d_last[layer][d]", "d_last[-1][d]",
           "rnn stack", "layer index lost while refactoring"),
    Mutant("layers upside down", STACK, "d_initial.insert(0, d_states)",
           "d_initial.append(d_states)", "lstm stack", "collected top down, returned as bottom up"),
    Mutant("bias gradient copied from dT", STACK, 'gradients[f"{name}.b"] = db',
           'gradients[f"{name}.b"] = dT.sum(axis=1)', "lstm stack",
           "copy and paste: summed over columns, not over steps"),
    Mutant("h and c swapped", "lstm.stack._lstm_backward", "(dh0, dc0)", "(dc0, dh0)",
           "lstm stack", "one order of the state inside, another outside"),
    Mutant("dropout of the top forgotten", "nmt.models.language_model.LanguageModel.backward",
           "dh = dh * cache.out_mask", "pass", "language model, dropout",
           "the mask between stack and prediction"),
    Mutant("time and batch confused", "nmt.models.language_model.LanguageModel.backward",
           "dh.reshape(T, B, -1)", "dh.reshape(B, T, -1).swapaxes(0, 1)", "language model",
           "rows are time-major, read as batch-major"),
)  # fmt: skip

GRU_CELL = "lstm.gru.gru_cell_backward"

GATED = (
    Mutant("reset gate's path forgotten", "lstm.gru.gru_gates_backward", "dh += dm", "pass",
           "gru cell", "h_{i-1} is read once more inside U [r o h_{i-1}]"),
    Mutant("gates' product forgotten", GRU_CELL, "dh += one", "pass", "gru cell",
           "U_r and U_z read h_{i-1} too"),
    Mutant("update gate the other way round", "lstm.gru.gru_state_backward",
           "xp.subtract(h_tilde, h_prev, out=one)", "xp.subtract(h_prev, h_tilde, out=one)",
           "gru cell",
           "PyTorch's h = (1 - z) n + z h_prev (erratum 17)"),
    Mutant("U by the bare state", "lstm.gru.gru_weight_gradient", "xp.matmul(of_u, m, ",
           "xp.matmul(of_u, h_prev, ", "gru sequence", "one GEMM for all three blocks"),
    Mutant("reset outside the product", GRU_CELL,
           "xp.matmul(dz[:, 2 * H :], T_h[2 * H :], out=dm)",
           "xp.matmul(dz[:, 2 * H :] * u[:, :H], T_h[2 * H :], out=dm)", "gru step",
           "backward of r o (U h), PyTorch's reset gate"),
)  # fmt: skip

KERNELS = (*ROWS, *PREDICTION, *LSTM, *RECURRENCE, *GATED, *STACKS)
