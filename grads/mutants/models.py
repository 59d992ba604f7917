"""The mistakes of `grads.mutants` in `nmt.models` and in `grads.derivations`."""

from __future__ import annotations

from grads.mutants.kernels import Mutant

BRIDGE = "nmt.models.bridge.bridge_backward"
DECODER = "nmt.models.decoder.decoder_backward"
LOOKING = "nmt.models.decoder._attention_backward"
FEEDING = "nmt.models.feeding.feeding_backward"
LOOP = "nmt.models.feeding._backward_loop"
FED = "decoder, feeding, rnn, 1 layer"
TRANSLATOR = "nmt.models.translator.Translator.backward"

SEARCHING = "nmt.models.contextual.searching_backward"
RNNSEARCH = "rnnsearch, gru, maxout, state before, bias"

GATED_MODELS = (
    Mutant("what the look asks with", SEARCHING, "ds += ds_look[:, 0]", "pass",
           "search decoder, gru, bias", "s_{i-1} turns, and scores the source before it does"),
    Mutant("context for the prediction only", SEARCHING, "dc[i] += matmul(dz[i], T_c)", "pass",
           "search decoder, gru, bias", "c_i is read by the unit too"),
    Mutant("word for the unit only", SEARCHING, ".reshape(steps, B, E) + d.y",
           ".reshape(steps, B, E)", RNNSEARCH, "the deep output reads E y_{i-1} once more"),
    Mutant("states one step late", "nmt.models.rnnsearch.RNNSearch.backward",
           "d_states[self._states(steps)]", "d_states[1:]", RNNSEARCH,
           "gradient of s_{i-1} given to s_i (erratum 18)"),
    Mutant("fixed context of one step", "nmt.models.contextual.fixed_backward",
           ".sum(axis=0), gradients", "[0], gradients", "last decoder, gru, bias",
           "the same c is read at every step"),
    Mutant("maxout to both", "nmt.models.deep_output.maxout_backward",
           "xp.multiply(dt, ~is_first,", "xp.multiply(dt, 1.0,", "deep output's maxout",
           "the smaller of the two does not matter"),
    Mutant("maxout to the other", "nmt.models.deep_output.maxout_backward",
           "xp.multiply(dt, is_first, out=dt_tilde[:, 0::2])",
           "xp.multiply(dt, is_first, out=dt_tilde[:, 1::2])", "deep output's maxout",
           "which of a pair it was, confused"),
    Mutant("first state without its encoder", "nmt.models.rnnsearch.RNNSearch.backward",
           "[(None,), end]", "[end, (None,)]", RNNSEARCH,
           "->h_Tx for <-h_1 (erratum 19)"),
)  # fmt: skip

MODELS = (
    Mutant("bridge's blocks swapped", BRIDGE, "k * directions + d",
           "(n - 1 - k) * directions + d", "bridge, both ends", "[c; h] for [h; c]"),
    Mutant("bridge's directions swapped", BRIDGE, "k * directions + d",
           "k * directions + (directions - 1 - d)", "bridge, both ends",
           "[backward; forward] for [forward; backward]"),
    Mutant("bridge's blocks by direction", BRIDGE, "k * directions + d", "d * n + k",
           "bridge, both ends", "the other nesting: all of one direction, then the other"),
    Mutant("bridge's weights without tanh'", BRIDGE, "matmul(dz.T, joined)",
           "matmul(d_out.T, joined)", "bridge, lstm",
           "upstream used where the gradient at the pre-activation belongs"),
    Mutant("first bridge's weights for all", BRIDGE, "out, parameters[name]",
           'out, parameters["bridge.0.W"]', "bridge, lstm", "layer index lost"),
    Mutant("encoder through its last state only", "nmt.models.encoder.encoder_backward",
           "stack_backward(dstates,", "stack_backward(None,", "encoder, lstm",
           "written before attention was added"),
    Mutant("encoder's last state dropped", "nmt.models.encoder.encoder_backward",
           "dstates, d_last,", "dstates, None,", "encoder, rnn",
           "written for attention; the decoder's start forgotten"),
    Mutant("dropout of the decoder's top forgotten", DECODER,
           "d_out if cache.mask is None else d_out * cache.mask", "d_out",
           "decoder, no attention, dropout", "the mask is used in the forward only"),
    Mutant("embedding gradient of another time", DECODER, "embedding_backward(dx, ",
           "embedding_backward(dx[::-1], ", "decoder, attention",
           "collected backward in time, not turned round"),
    Mutant("dropout of [c; h] forgotten", LOOKING,
           "d_joined = d_joined * cache.mask.transpose(1, 0, 2)", "pass",
           "decoder, attention, dropout", "the mask is used in the forward only"),
    Mutant("[h; c] for [c; h]", LOOKING, "d_joined[:, :, :-H], d_joined[:, :, -H:]",
           "d_joined[:, :, H:], d_joined[:, :, :H]", "decoder, attention",
           "wrong slices of the joined vector, of the right shapes"),
    Mutant("no gradient through the scores", LOOKING, "(dh + dh_attention)", "dh",
           "decoder, attention", "h_t is read by W_c and by the score; one branch left out"),
    Mutant("no gradient past the attention", LOOKING, "(dh + dh_attention)", "dh_attention",
           "decoder, attention", "= instead of += for dh_t"),
    Mutant("time-major read as batch-major", LOOKING,
           "xp.ascontiguousarray(d_out.transpose(1, 0, 2)).reshape(B * T, H)",
           "d_out.reshape(B * T, H)", "decoder, attention", "a transpose left out before reshape"),
    Mutant("h~ not fed back", LOOP, "d_out[t] + d_rows[0][:, :H]", "d_out[t].copy()",
           FED, "input feeding in the forward only"),
    Mutant("h~ fed back one step late", LOOP,
           "for t in reversed(range(T)):\n        dh_tilde = d_out[t] + d_rows[0][:, :H]",
           "fed = xp.zeros((B, H), dtype=dtype)\n"
           "    for t in reversed(range(T)):\n"
           "        dh_tilde, fed = d_out[t] + fed, d_rows[0][:, :H].copy()",
           FED, "the gradient of h~_{t+1} added to that of h~_t"),
    Mutant("h for h~ fed back", LOOP, "d_out[t] + d_rows[0][:, :H]",
           "d_out[t] + d_rows[0][:, -H:]", FED, "wrong slice of [h~; h]"),
    Mutant("tanh' of h~_{t-1}", LOOP, "rows[t + 1, :, :H]", "rows[t, :, :H]", FED,
           "off by one: rows holds h~_0 first"),
    Mutant("fed dropout of [c; h] forgotten", LOOP, "d_joined *= cache.joined_mask[t]", "pass",
           "decoder, feeding, dropout", "the mask is used in the forward only"),
    Mutant("context before its dropout", LOOP, "d_joined *= cache.joined_mask[t]",
           "d_joined[:, He:] *= cache.joined_mask[t][:, He:]", "decoder, feeding, dropout",
           "the mask on half of the joined vector"),
    Mutant("fed decoder without its scores", LOOP, "dh_above += dh_attention[:, 0]", "pass",
           FED, "h_t is read by W_c and by the score; one branch left out"),
    Mutant("recurrent part not added", LOOP, "d_rows[depth][:, -H:] + dh_above",
           "dh_above + 0.0", FED, "dh_t from above only"),
    Mutant("recurrent part from the wrong columns", LOOP, "d_rows[depth][:, -H:] + dh_above",
           "d_rows[depth][:, :H] + dh_above", "decoder, feeding", "[x; h] sliced as [h; x]"),
    Mutant("dx of lower layers dropped", LOOP, "dh_above = d_rows[depth][:, :H]",
           "dh_above = 0.0 * d_rows[depth][:, :H]", "decoder, feeding",
           "only the top layer is told of the loss"),
    Mutant("dropout between fed layers forgotten", LOOP, "dh_above = dh_above * layer.mask[t]",
           "pass", "decoder, feeding, dropout", "the mask is used in the forward only"),
    Mutant("first states from the wrong columns", LOOP, "(rows[:, -H:], cell)",
           "(rows[:, :H], cell)", FED, "wrong slice of [h~; h]"),
    Mutant("fed h_t for h_{t-1}", FEEDING, "layer.rows[:T]", "layer.rows[1:]",
           FED, "off by one in dT"),
    Mutant("fed columns in another order", FEEDING, "(dz_rows, x.reshape(T * B, E), rows, ",
           "(dz_rows, rows, x.reshape(T * B, E), ", FED,
           "dT as [h~; h; x], T as [x; h~; h]"),
    Mutant("bias gradient of the first layer", FEEDING, "dz_rows.sum(axis=0)",
           "steps.dz[0].reshape(T * B, -1).sum(axis=0)", "decoder, feeding",
           "copy and paste: layer 0's for every layer"),
    Mutant("embedding gradient unmasked", FEEDING, "dx *= cache.x_mask", "pass",
           "decoder, feeding, dropout", "the first layer's mask is applied elsewhere"),
    Mutant("gradient on padded words", "lstm.prediction.output_backward", "full[...] = 0.0",
           "full[...] = 1.0", "output", "what stands in the buffer is taken for zero"),
    Mutant("buffer not zeroed", "lstm.prediction.output_backward", "full[...] = 0.0", "pass",
           "output", "a recycled buffer with the numbers of the batch before"),
    Mutant("real words moved together", "lstm.prediction.output_backward",
           "full[cache.rows] = dh", "full[: len(dh)] = dh", "output",
           "the way back to the padded positions forgotten"),
    Mutant("source only through its last state", TRANSLATOR, "encoder_backward(dstates, ",
           "encoder_backward(None, ", "translator, general, feeding",
           "written before attention was added"),
    Mutant("values and keys swapped", TRANSLATOR, "d_memory.dhbar, d_memory.dkeys",
           "d_memory.dkeys, d_memory.dhbar", "translator, general",
           "two arguments of one shape in the wrong order"),
)  # fmt: skip

ALGORITHM_1, ALGORITHM_2 = "derivation, Algorithm 1", "derivation, Algorithm 2"
ALGORITHM_4 = "derivation, Algorithm 4"
UNIT = "grads.derivations.lstm.lstm_grad"
ATTEND_GRAD = "grads.derivations.attention.attend_grad"


def _of_derivation(
    name: str, function: str, old: str, new: str, entry: str, why: str
) -> Mutant:
    """A mutant to be found in one sentence: a derivation runs one at a time."""
    return Mutant(name, function, old, new, entry, why, "one sentence")


DERIVATIONS = (
    _of_derivation("Algorithm 1 line 2 as printed", "grads.derivations.rnn.predict_grad",
           "p - one_hot(y, len(p))", "one_hot(y, len(p)) - p", ALGORITHM_1,
           "ds_t = 1_y - p_t: every sign reversed (erratum 1)"),
    _of_derivation("Algorithm 2 without dh_{t-1}", UNIT, "T_h.T @ da", "0.0 * dh", ALGORITHM_2,
           "the printed algorithm ends at dT (erratum 2)"),
    _of_derivation("Algorithm 2 lines 14 and 15 as printed", "grads.derivations.lstm.backward",
           "dT, db = dT + dT_t,", "dT, db = dT_t,", ALGORITHM_2,
           "dT <- where dT <- dT + is meant: only the first step is left"),
    _of_derivation("g' at u", UNIT, "g_prime(a) * du", "g_prime(g(a)) * du", ALGORITHM_2,
           "Eqs. 2.47-2.50 with what the forward keeps (erratum 4)"),
    _of_derivation("tanh' at tanh(c)", UNIT, "tanh_prime(c)", "tanh_prime(np.tanh(c))", ALGORITHM_2,
           "the derivative evaluated at the activation"),
    _of_derivation("repeated words overwritten", "grads.derivations.rnn.embed_grad",
           "dW_e + one_hot(word, len(dW_e)) @ dx.T",
           "np.where(one_hot(word, len(dW_e)) > 0, dx.T, dW_e)", ALGORITHM_1,
           "= for += in the sparse update of remark (b)"),
    _of_derivation("Algorithm 4 without line 15", "grads.derivations.nmt.multi_layer_lstm_grad",
           "dh[l - 1] + dx", "dh[l - 1]", ALGORITHM_4, "dx_t is not printed in Algorithm 2"),
    _of_derivation("Algorithm 4 line 4 one step early", "grads.derivations.nmt.backward",
           "if t == m_x:", "if t == m_x + 1:", ALGORITHM_4,
           "the decoder's first word goes to the encoder's gradients"),
    _of_derivation("score's W_a transposed", ATTEND_GRAD, "dh + W_a @ h_bar @ de",
           "dh + W_a.T @ h_bar @ de", "derivation, attention, general",
           "h^T W_a hbar differentiated as hbar^T W_a h"),
    _of_derivation("softmax_grad without p p^T", "grads.derivations.calculus.softmax_grad",
           "p * dp - p * (p.T @ dp)", "p * dp", "derivation, attention, dot, feeding",
           "second term of the Jacobian left out"),
    _of_derivation("h~_t from its loss only", "grads.derivations.attention.decoder_grad",
           "dh_tilde + d_fed", "dh_tilde", "derivation, attention, general, feeding",
           "input feeding left out of the gradient"),
    _of_derivation("source states from the other end", "grads.derivations.attention.encoder_grad",
           "dh_bar[:, [s - 1]]", "dh_bar[:, [len(x) - s]]", "derivation, attention, general",
           "the encoder reads the source reversed; undone where it should not be"),
    _of_derivation(
           "output bias of one word", "grads.derivations.attention.decoder_grad",
           "db_hy + d_hy", "d_hy", "derivation, attention, dot, output bias",
           "= for += in the sum over time"),
    _of_derivation("score's sum over time", "grads.derivations.attention.decoder_grad",
           "dw[name] + dw_t[name]", "dw_t[name]", "derivation, attention, additive, feeding",
           "= for += in the sum over time"),
    _of_derivation("position without its length", "grads.derivations.local.predict_position_grad",
           "S * sigm_prime(k)", "sigm_prime(k)", "derivation, local-p, general, feeding",
           "p_t = S sigm(...): the factor S left out (4.9)"),
    _of_derivation("state through the reset gate only", "grads.derivations.gru.gru_context_grad",
           "((1 - z) * ds", "(0.0 * ds", "derivation, RNNsearch, state before",
           "what the update gate lets through left out"),
    _of_derivation("alignment's context once", "grads.derivations.rnnsearch.backward",
           "dc_deep + dc_unit", "dc_unit", "derivation, RNNsearch, state now, bias",
           "c_i is read by the deep output too"),
    _of_derivation("left encoder from the last word", "grads.derivations.rnnsearch.encode_grad",
           "{1: d_first}", "{1: 0.0 * d_first}", "derivation, RNNsearch, state before",
           "s_0 reads <-h_1 (erratum 19)"),
)  # fmt: skip
