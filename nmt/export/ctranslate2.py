"""Export of a Transformer to CTranslate2 (Klein et al., 2020), by that package's own classes.

| here | there |
|---|---|
| `W_q`, `W_k`, `W_v` of `attention` below one another | `self_attention/linear_0` |
| `W_k`, `W_v` of `source` below one another | `attention/linear_1` |
| sines and cosines in turn (Nguyen Eqs. 1.14, 1.15) | `position_encodings`, written out |
| `</s>` before the first target word | `decoder_start_token` |
| `data.source_end` | `add_source_eos` |
| ScaleNorm g x / norm of x | RMSNorm with weights g / sqrt(d), where eps is almost 0 |
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from attention.norm_cache import EPS
from attention.positions import positions
from backend import to_host
from backend.errors import UserError, missing
from nmt.data.vocabulary import END, SPECIALS, UNKNOWN
from nmt.files import new_directory
from nmt.models.transformer import TransformerConfig
from nmt.models.transformer_layers import Layers
from nmt.system import System

FORMAT = "--format ctranslate2"
MOST = 256  # longest output of CTranslate2 by default, in words; each word needs a position


def export(system: System, directory: Path) -> None:
    """Write a Transformer into a new or empty directory, for `ctranslate2.Translator`.

    Raises UserError for a model that CTranslate2 cannot compute, for a directory that cannot be
    written, and without the package ctranslate2 (the extra `export`).
    """
    spec = _specification(system)
    spec.validate()
    spec.optimize()  # tables that are equal are written once
    with new_directory(directory) as unfinished:
        spec.save(str(unfinished))


def _check(system: System) -> None:
    """Raise UserError for a model that CTranslate2 cannot compute, and if it is not installed."""
    model = system.recipe.model
    if not isinstance(model, TransformerConfig):
        raise UserError(f"{FORMAT}: expected a Transformer, got {type(system.model).__name__}")
    if model.counts_down:
        raise UserError(f"{FORMAT}: expected model.target_positions: forward, got "
                        f"{model.target_positions}")
    if system.recipe.data.reverse_target:
        raise UserError(f"{FORMAT}: expected data.reverse_target: false, got true")
    if find_spec("ctranslate2") is None:
        raise UserError(f"{FORMAT}: {missing('ctranslate2', 'export')}")


def _specification(system: System) -> Any:
    """CTranslate2's description of the model, with its weights and vocabularies."""
    _check(system)
    from ctranslate2.specs import TransformerSpec  # imported late, because it loads PyTorch

    config, end = system.recipe.model, SPECIALS[END]
    spec = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers), config.heads, pre_norm=config.pre_norm,
        rms_norm=config.norm != "layer", alignment_heads=config.heads)
    parameters = {name: np.asarray(to_host(array), np.float32)
                  for name, array in system.parameters.items()}
    longest = max(MOST, int(system.recipe.search.step_limits(np.array(config.positions))))
    for side, stack, steps in (("encoder", spec.encoder, config.positions),
                               ("decoder", spec.decoder, longest)):
        _fill_stack(stack, side, parameters, config.layers_of(side), steps)
    spec.decoder.projection.weight = parameters["output.W_hy"]
    if config.output_bias:
        spec.decoder.projection.bias = parameters["output.b"]
    spec.register_source_vocabulary(list(system.source.words))
    spec.register_target_vocabulary(list(system.target.words))
    scaled = config.norm.endswith("scale")
    spec.config.layer_norm_epsilon = EPS**2 / config.hidden_size if scaled else EPS
    spec.config.unk_token, spec.config.eos_token = SPECIALS[UNKNOWN], end
    spec.config.bos_token = spec.config.decoder_start_token = end
    spec.config.add_source_eos = system.recipe.data.source_end
    return spec


def _fill_stack(
    spec: Any, prefix: str, parameters: Mapping[str, np.ndarray], layers: Layers, steps: int
) -> None:
    """Set the weights of an encoder or decoder; steps: the length of its table of positions."""
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embeddings.weight = parameters[f"{prefix}.W_e"]
    spec.position_encodings.encodings = positions(0, steps, layers.width, np.float32)[:, 0]
    if layers.placement.pre:
        _fill_norm(spec.layer_norm, f"{prefix}.norm", parameters, layers)
    for number, layer in enumerate(spec.layer):
        for sublayer in layers.sublayers:
            name = f"{prefix}.{number}.{sublayer}"
            if sublayer == "feed_forward":
                _fill_linear(layer.ffn.linear_0, name, parameters, "1")
                _fill_linear(layer.ffn.linear_1, name, parameters, "2")
                _fill_norm(layer.ffn.layer_norm, f"{name}.norm", parameters, layers)
                continue
            is_source = sublayer == "source"
            attention = layer.attention if is_source else layer.self_attention
            letters = ("q", "kv", "o") if is_source else ("qkv", "o")
            for linear, maps in zip(attention.linear, letters, strict=True):
                _fill_linear(linear, name, parameters, maps)
            _fill_norm(attention.layer_norm, f"{name}.norm", parameters, layers)


def _fill_linear(spec: Any, prefix: str, parameters: Mapping[str, np.ndarray], maps: str) -> None:
    """Set the weights of a linear layer: the matrices of the letters, below one another.

    A matrix without biases, such as that of keys, gets zeros.
    """
    matrices = [parameters[f"{prefix}.W_{letter}"] for letter in maps]
    spec.weight = np.concatenate(matrices)
    spec.bias = np.concatenate([
        parameters.get(f"{prefix}.b_{letter}", np.zeros(len(W), np.float32))
        for letter, W in zip(maps, matrices, strict=True)])


def _fill_norm(
    spec: Any, prefix: str, parameters: Mapping[str, np.ndarray], layers: Layers
) -> None:
    """Set the weights of a norm; ScaleNorm becomes the RMSNorm that equals it."""
    kind, d = layers.placement.norm, layers.width
    if kind in ("layer", "rms"):
        spec.gamma = parameters[f"{prefix}.g"]
    else:
        g = parameters[f"{prefix}.g"] if kind == "scale" else d**0.5
        spec.gamma = np.full(d, g / d**0.5, np.float32)
    if kind == "layer":
        spec.beta = parameters[f"{prefix}.b"]
