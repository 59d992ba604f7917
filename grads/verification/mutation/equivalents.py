"""Mutants that compute the same, or that gradient checks need not detect, with their reasons.

A key is a mutant's name, or a common prefix of several names: a function, or a function and the
changed code.
"""

from __future__ import annotations

from collections.abc import Mapping

EQUIVALENTS: dict[str, str] = {
    "attention.attention.GlobalMemory.gradients: self.maps_backward(dhbar, dkeys, dq, h, None) -> "
    "self.maps_backward(dhbar, dkeys, h, dq, None)":
        "nothing reads these arguments",
    "attention.attention.memory_forward: parameters.items() -> list(parameters.items())[:-1]":
        "nothing here reads the last parameter, which the output layer has",
    "attention.local.sum_of_reads: reads[1:] -> list(reads[1:])[:1]":
        "the list has at most two elements",
    "attention.location.LocationMemory.attend_backward: d_softmax[:, :, :n] = self._cut(d) -> "
    "d_softmax[:, :, :n] += self._cut(d)": "adds to an array that is zero",
    "attention.location.LocationMemory.gradients: dhbar[:, :align.shape[2]] = "
    "xp.matmul(align.transpose(0, 2, 1), dc) -> dhbar[:, :align.shape[2]] += "
    "xp.matmul(align.transpose(0, 2, 1), dc)": "adds to an array that is zero",
    "attention.memory.SourceMemory.maps_backward: self.W_query is not None -> True":
        "nothing reads these arguments",
    "attention.norms.scale_norm_backward: along * free -> along":
        "vectors shorter than eps have their own test",
    "attention.scores._over_queries: slope.shape[1] == 1 -> False": "only the speed differs",
    "attention.scores.scaled_backward: product_backward(de, q, keys, v, sums) -> "
    "product_backward(de, q, keys, sums, v)": "nothing reads these arguments",
    "attention.several.Memories.attend_backward: others -> list(others)[:1]":
        "the list has at most two elements",
    "attention.window.spread_window: spread.reshape(-1)[_places(rows, S)] = align -> "
    "spread.reshape(-1)[_places(rows, S)] += align": "adds to an array that is zero",
    "backend.rows.RowGradient.dense: full[self.ids] = self.values": "adds to an array that is zero",
    "backend.rows._merge: g.on_host is None": "the ids are the same on host and device",
    "backend.rows._merge: np.union1d(first, second)": "the function is symmetric in its arguments",
    "backend.rows._merge: values[to_device(np.searchsorted(ids, first))] = total.values":
        "adds to an array that is zero",
    "backend.rows.sum_segments: counts > 1": "adding an empty sum changes nothing",
    "backend.rows.sum_segments: len(longer) > FEW": "only the speed differs",
    "backend.rows.add_gradients: isinstance(total, RowGradient) and isinstance(other, RowGradient) "
    "-> isinstance(total, RowGradient)":
        "models add arrays before rows; tests/nmt/models/test_parametrization.py tries both orders",
    "backend.rows.add_gradients: isinstance(total, RowGradient) -> False":
        "models add arrays before rows; tests/nmt/models/test_parametrization.py tries both orders",
    "backend.rows.add_gradients: _merge(total, other)":
        "the function is symmetric in its arguments",
    "backend.rows.sum_segments: not on_host(array_module(rows))": "only the speed differs",
    "backend.rows.sum_segments: _sum_by_atomics(rows, order, starts)":
        "the line runs on a GPU only",
    "backend.switch.array_module":
        "all arrays are NumPy's here; tests/backend/test_switch.py mixes backends",
    "backend.workspace.Workspace._raw": "any buffer, or none, may be reused",
    "backend.workspace.copy_transpose: :min(BLOCK, len(weights) - start)":
        "another part of a larger buffer is used",
    "backend.workspace.copy_transpose: :G": "another part of a larger buffer is used",
    "backend.workspace.copy_transpose: :n": "another part of a larger buffer is used",
    "lstm.cells.lstm.lstm_backward: dh += d_out":
        "real numbers take the form in place; tests/backend/test_fused.py holds the two equal",
    "lstm.parameters.block_bias": "the initial values of biases are no gradient",
    "lstm.prediction.bias_backward: full[cache.rows] = d -> full[cache.rows] += d":
        "adds to an array that is zero",
    "lstm.prediction.output_backward: dh[cache.rows] = dh_of_rows": "adds to an array that is zero",
    "lstm.prediction.cross_entropy: s -= s.real.max(axis=1, keepdims=True)":
        "the softmax is the same; tests/lstm/test_prediction.py tries huge scores",
    "lstm.prediction.prediction_backward: workspace = workspace or Workspace()":
        "every model passes the argument",
    "lstm.cells.clipping.clipped: others -> list(others)[:1]":
        "a state has one array beside h, or none",
    "lstm.cells.clipping.clip_elements: array_module(d).clip(d, -limit, limit, out=d) -> "
    "array_module(d).clip(-limit, d, limit, out=d)": "the function is symmetric in its arguments",
    "lstm.sampled.sampled_backward: full[rows] = db": "adds to an array that is zero",
    "lstm.stack.stack_backward: layer -> layer - 1 (3)":
        "either all layers have a mask, or none has",
    "nmt.data.lexicon.entries_of":
        "constants of both passes; tests/nmt/models/test_lexicon.py checks their values",
    "nmt.models.decoder._attention_backward: "
    "d_joined = d_joined * mask.transpose(1, 0, 2)": "the call before has already made it",
    "nmt.models.decoder.decoder_backward: d_top = d_top * cache.mask":
        "the call before has already made it",
    "nmt.models.encoder.encoder_backward: composed -> True":
        "without groups of words there are no gradients to add",
    "nmt.models.encoder.encoder_backward: factors -> True":
        "without factors there are no gradients to add",
    "nmt.models.feeding.feeding_backward: stack.residual and layer and (d_out is not None) -> "
    "stack.residual and layer": "the top state of every step has a gradient",
    "nmt.models.input_feeding.input_feeding_backward: d_fed[0] = 0.0":
        "fed_0 is a constant, so nothing reads its gradient",
    "nmt.models.state_feeding.state_feeding_backward: d_fed[0] = 0.0":
        "fed_0 is a constant, so nothing reads its gradient",
    "nmt.models.heads.deep_output.DeepOutput._hidden_backward: "
    "d_states[self._read_states(T)] = ds": "adds to an array that is zero",
    "nmt.models.heads.lexical.lexical_backward: dh = dh * cache.mask":
        "the call before has already made it",
    "nmt.models.heads.softmax_terms.SoftmaxWithTerms.backward: d_align -> d_source":
        "the lexical module gives both values, or is absent",
    "nmt.models.heads.spelling.Spelling.backward: d_joined[t, b] = d_rows":
        "adds to an array that is zero",
    "nmt.models.heads.spelling._scaled: alpha == 1.0 -> False":
        "a copy with the same rows is written",
    "nmt.models.heads.state_output.StateOutput._hidden_backward: states[1:] = dt":
        "adds to an array that is zero",
    "nmt.models.language_model.LanguageModel.backward: dh = dh * cache.out_mask":
        "the call before has already made it",
    "nmt.models.parametrization.Leading.backward: dg[:len(d)] = d -> dg[:len(d)] += d":
        "adds to an array that is zero",
    "nmt.models.parametrization.Parametrized.backward: add_gradients(gradients[stored], d_stored)":
        "the function is symmetric in its arguments",
    "nmt.models.parametrization.Stacked.backward: self.axis == 1 and self.blocks == 1 -> False":
        "the gradient is the same as a dense array",
    "nmt.models.spelling._sum: add_gradients(total[name], gradient)":
        "the function is symmetric in its arguments",
    "nmt.models.spelling.composed_forward: enumerate(groups)":
        "this is another model with a right gradient; PyTorch gives other values",
    "nmt.models.spelling.spelled_backward: dh = dh * mask -> dh *= mask":
        "the call before has already made it",
    "nmt.models.two_sources.combiner_forward: ends[0][1:] -> list(ends[0][1:])[:1]":
        "the list has at most one element",
}  # fmt: skip


def reason(name: str, equivalents: Mapping[str, str] = EQUIVALENTS) -> tuple[str, str] | None:
    """The key of a mutant's name, and the reason why it is no mistake; None if there is no key."""
    return next(((key, why) for key, why in equivalents.items()
                 if name == key or name.startswith((f"{key} -> ", f"{key}: "))), None)
