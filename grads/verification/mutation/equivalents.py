"""Mutants that compute the same, or that gradient checks need not detect, each with its reason.

A key is a mutant's name, or a common prefix of several: a function, or a function and the changed
code.
"""

from __future__ import annotations

from collections.abc import Mapping

EQUIVALENTS: dict[str, str] = {
    "attention.attention.GlobalMemory.gradients: self.maps_backward(dhbar, dkeys, dq, h, None) -> "
    "self.maps_backward(dhbar, dkeys, h, dq, None)":
        "scores whose keys are summed so do not map h_t: neither is read",
    "attention.attention.memory_forward: parameters.items() -> list(parameters.items())[:-1]":
        "the last parameter is the output layer's",
    "attention.local.sum_of_reads: reads[1:] -> list(reads[1:])[:1]": "at most two read",
    "attention.location.LocationMemory.attend_backward: d_softmax[:, :, :n] = self._cut(d) -> "
    "d_softmax[:, :, :n] += self._cut(d)": "zero before",
    "attention.location.LocationMemory.gradients: dhbar[:, :align.shape[2]] = "
    "xp.matmul(align.transpose(0, 2, 1), dc) -> dhbar[:, :align.shape[2]] += "
    "xp.matmul(align.transpose(0, 2, 1), dc)": "zero before",
    "attention.memory.SourceMemory.maps_backward: self.W_query is not None -> True":
        "the gradient of a matrix that is not there is not read",
    "attention.norms.scale_norm_backward: along * free -> along":
        "vectors shorter than eps have a test of their own",
    "attention.scores._over_queries: slope.shape[1] == 1 -> False": "faster for one query",
    "attention.scores.scaled_backward: product_backward(de, q, keys, v, sums) -> "
    "product_backward(de, q, keys, sums, v)": "it reads neither",
    "attention.several.Memories.attend_backward: others -> list(others)[:1]": "of two at most",
    "attention.window.spread_window: spread.reshape(-1)[_places(rows, S)] = align -> "
    "spread.reshape(-1)[_places(rows, S)] += align": "zero before, rows are distinct",
    "backend.rows.RowGradient.dense: full[self.ids] = self.values": "zero before, ids are distinct",
    "backend.rows._merge: g.on_host is None": "where the ids are copied from",
    "backend.rows._merge: np.union1d(first, second)": "symmetric",
    "backend.rows._merge: values[to_device(np.searchsorted(ids, first))] = total.values":
        "zero before, ids are distinct",
    "backend.rows._sum_on_host: counts > 1": "a segment of one adds an empty sum",
    "backend.rows._sum_on_host: len(longer) > FEW": "which of two loops is faster",
    "backend.rows.add_gradients: isinstance(total, RowGradient) and isinstance(other, RowGradient) "
    "-> isinstance(total, RowGradient)": "as the next",
    "backend.rows.add_gradients: isinstance(total, RowGradient) -> False":
        "models give arrays before rows; tests/nmt/models/test_parametrization.py has both orders",
    "backend.rows.add_gradients: _merge(total, other)": "symmetric",
    "backend.rows.sum_segments: on_host(xp)": "two ways to the same sum; the second is for GPUs",
    "backend.rows.sum_segments: xp.add.at(values, inverse, rows)": "runs on a GPU only",
    "backend.workspace.Workspace._raw": "which buffer is recycled, if any",
    "backend.workspace.copy_transpose: :min(BLOCK, len(weights) - start)":
        "another part of the higher buffer",
    "lstm.cells.cell.clip_elements: array_module(d).clip(d, -limit, limit, out=d) -> "
    "array_module(d).clip(-limit, d, limit, out=d)": "the larger of two is symmetric",
    "lstm.cells.cell.clipped: array_module(d).clip(d, -limit, limit) -> "
    "array_module(d).clip(-limit, d, limit)": "the larger of two is symmetric",
    "lstm.cells.gru.backward: pad is None": "a buffer that nothing reads without padding",
    "lstm.cells.gru_after.backward: pad is None": "a buffer that nothing reads without padding",
    "lstm.cells.lstm.backward: pad is None": "a buffer that nothing reads without padding",
    "lstm.cells.lstm.lstm_backward: pad is not None": "a copy that nothing reads without padding",
    "lstm.cells.lstm.lstm_backward_in_place: :2": "another part of a wider buffer",
    "lstm.cells.rnn.backward: pad is None": "a buffer that nothing reads without padding",
    "lstm.cells.rnn.backward: pad is not None": "a copy that nothing reads; zeros written nowhere",
    "lstm.parameters.block_bias": "where biases start is no gradient",
    "lstm.prediction.bias_backward: cache.rows is not None -> True": "all rows written, by a copy",
    "lstm.prediction.bias_backward: full[cache.rows] = d -> full[cache.rows] += d":
        "zero before, rows are distinct",
    "lstm.prediction.output_backward: cache.rows is not None": "all rows written, by a copy",
    "lstm.prediction.output_backward: full[cache.rows] = dh": "zero before, rows are distinct",
    "lstm.prediction.cross_entropy: s -= s.real.max(axis=1, keepdims=True)":
        "the same softmax; tests/lstm/test_prediction.py holds that huge scores do not overflow",
    "lstm.prediction.prediction_backward: workspace = workspace or Workspace()":
        "every model gives one",
    "lstm.recurrent.make_steps: cell.saves": "a buffer that the cell does not touch",
    "lstm.sampled.sampled_backward: full[rows] = db": "zero before, rows are distinct",
    "lstm.stack.stack_backward: layer -> layer - 1 (3)": "all layers have a mask, or none",
    "nmt.data.lexicon.entries_of":
        "fixed numbers, in both passes; tests/nmt/models/test_lexicon.py holds which",
    "nmt.models.decoder._attention_backward: "
    "d_joined = d_joined * cache.mask.transpose(1, 0, 2)": "made by the call before",
    "nmt.models.decoder.decoder_backward: d_top = d_top * cache.mask": "made by the head",
    "nmt.models.heads.deep_output.DeepOutput._hidden_backward: "
    "d_states[self._read_states(T)] = ds": "zero before",
    "nmt.models.heads.lexical.lexical_backward: dh = dh * cache.mask": "made by the call before",
    "nmt.models.heads.softmax.Softmax.backward: d_align -> d_source":
        "the lexical module gives both, or there is none",
    "nmt.models.heads.spelling.Spelling.backward: d_joined[t, b] = d_rows":
        "zero before, no place comes twice",
    "nmt.models.heads.spelling._scaled: alpha == 1.0 -> False": "a copy of the same",
    "nmt.models.language_model.LanguageModel.backward: dh = dh * cache.out_mask":
        "made by the call before",
    "nmt.models.parametrization.Leading.backward: dg[:len(d)] = d -> dg[:len(d)] += d":
        "zero before",
    "nmt.models.parametrization.Parametrized.backward: add_gradients(gradients[stored], d_stored)":
        "symmetric",
    "nmt.models.parametrization.Stacked.backward: self.axis == 1 and self.blocks == 1 -> False":
        "the same gradient, dense",
    "nmt.models.spelling._sum: add_gradients(total[name], gradient)": "symmetric",
    "nmt.models.spelling.composed_forward: enumerate(groups)":
        "another model, whose gradient is right; PyTorch's tells them apart",
    "nmt.models.spelling.spelled_backward: dh = dh * mask -> dh *= mask": "made by the call before",
    "nmt.models.two_sources.combiner_forward: ends[0][1:] -> list(ends[0][1:])[:1]":
        "a unit has one cell or none",
}  # fmt: skip


def reason(name: str, equivalents: Mapping[str, str] = EQUIVALENTS) -> tuple[str, str] | None:
    """The key that a mutant's name belongs to, and why it is no mistake; None if there is none."""
    return next(((key, why) for key, why in equivalents.items()
                 if name == key or name.startswith((f"{key} -> ", f"{key}: "))), None)
