"""Every mistake in a configuration is refused, by the name of its field."""

from __future__ import annotations

import pytest

from nmt.models.translator import ModelConfig


@pytest.mark.parametrize("field, value", [
    ("unit", "gru2"), ("attention", "soft"), ("score", "cosine"), ("initialisation", "gauss"),
    ("window", 0), ("window", -3), ("location_length", 0), ("attention", "local"),
    ("score", "concat-identity"), ("layers", 0), ("hidden_size", 0), ("embedding_size", -1),
    ("dropout", 1.0), ("dropout", -0.1), ("clip_elements", 0.0), ("clip_elements", -1.0),
    ("clip_elements", float("nan")), ("clip_elements", float("inf")), ("dropout_sites", "top"),
])  # fmt: skip
def test_a_bad_value_names_its_field(field, value):
    with pytest.raises(ValueError, match=rf"^{field}: expected .*got '?{value}"):
        ModelConfig(**{field: value})


@pytest.mark.parametrize("field, options", [
    ("bridge", {"bidirectional": True}),
    ("score", {"score": "location", "attention": "local-m"}),
    ("score", {"score": "location", "attention": "local-p"}),
    ("renormalise", {"renormalise": True}),
    ("renormalise", {"renormalise": True, "attention": "local-m"}),
    ("concat_identity", {"concat_identity": True}),
    ("score", {"score": "dot", "attention": "local-p", "bidirectional": True, "bridge": True}),
    ("score", {"score": "dot", "bidirectional": True, "bridge": True}),
])  # fmt: skip
def test_parts_that_do_not_fit_are_named(field, options):
    with pytest.raises(ValueError, match=rf"^{field}: "):
        ModelConfig(**options)


def test_valid_combinations_are_accepted():
    ModelConfig()
    ModelConfig(attention="none", input_feeding=False, score="dot")
    ModelConfig(attention="local-p", score="concat", concat_identity=True, renormalise=True)
    ModelConfig(attention="local-m", score="additive", window=1000)
    ModelConfig(unit="gru", input_feeding=True)
    ModelConfig(attention="none", input_feeding=False, score="dot", bidirectional=True, bridge=True)
