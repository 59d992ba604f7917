"""The hybrid model's reference against its derivation: a padded batch, every gradient."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the oracle (extra `oracle`)")

from grads.derivations.examples import Sizes, draw  # noqa: E402
from grads.derivations.hybrid import hybrid_backward, hybrid_forward  # noqa: E402
from grads.derivations.hybrid_example import hybrid_shapes  # noqa: E402
from grads.derivations.scores import Variant  # noqa: E402
from grads.verification.reference import gradients, hybrid, luong  # noqa: E402
from nmt.data.batches import make_batch  # noqa: E402

V_S, V_T, C_S, C_T = 4, 5, 6, 5
SIZES = Sizes(hidden=2, embedding=3)
A, B, C = (2, 3, 2), (5,), (4, 4, 3, 2, 5)  # three words by their characters
PAIRS = [  # words, or characters of a rare word
    ([A, 2, B, A, 3], [2, A[:2], (4,), 3]), ([3, C], [2, 4]), ([2, 3, A], [(2, 4, 3)]),
]
ALPHA = 0.7


def config(path="separate", **options):
    fields = {
        "path": path, "alpha": ALPHA, "unit": "lstm", "layers": SIZES.layers, "biases": True,
        "character_layers": SIZES.layers, "hidden_size": SIZES.hidden, "input_feeding": True,
        "attention": "global", "score": "general", "concat_identity": False, "window": 1,
        "renormalise": False, "residual": False, "bidirectional": False, "bridge": False,
        "clip_elements": None, "source_characters": True, "target_characters": True,
        "factors": (), "output_norm": None, "lexical": False, "lexicon_epsilon": None}
    return SimpleNamespace(**(fields | options))


def parameters_of(path, sizes=SIZES):
    return draw(np.random.default_rng(5),
                hybrid_shapes([V_S, V_T], [C_S, C_T], sizes, path == "separate"))


def spelled(words, places, columns):
    """A group of words, padded below with the boundary."""
    lengths = np.array([len(word) + 1 for word in words])
    ids = np.ones((lengths.max(), len(words)), np.int64)
    for n, word in enumerate(words):
        ids[: len(word), n] = word
    return SimpleNamespace(ids=ids, lengths=lengths, places=np.array(places, np.int64),
                           words=np.array(columns, np.int64))


def group(places, types):
    """Words at (place, characters) as one group, with a column per type or per token."""
    words = list(dict.fromkeys(word for _, word in places)) if types else [w for _, w in places]
    columns = [words.index(word) for _, word in places] if types else range(len(words))
    return spelled(words, [place for place, _ in places], list(columns))


def grouped(places, groups, types):
    """Length groups: one for all, or short words and long ones."""
    cut = [[place for place in places if len(place[1]) <= 2],
           [place for place in places if len(place[1]) > 2]]
    return tuple(group(members, types) for members in (cut if groups == 2 else [places]) if members)


def batch_of(pairs, groups=1, reverse=False):
    ids = [[[0 if isinstance(word, tuple) else word for word in side] for side in pair]
           for pair in pairs]
    batch, number = make_batch(ids, range(len(ids)), reverse), len(pairs)
    source = [((len(x) - 1 - s if reverse else s) * number + b, word)
              for b, (x, _) in enumerate(pairs) for s, word in enumerate(x)
              if isinstance(word, tuple)]
    target = [(t * number + b, word) for b, (_, y) in enumerate(pairs)
              for t, word in enumerate(y) if isinstance(word, tuple)]
    side = batch.sources[0]
    return SimpleNamespace(
        sources=(SimpleNamespace(ids=side.ids, lengths=side.lengths, factors=None,
                                 characters=grouped(source, groups, types=True)),),
        target=SimpleNamespace(lengths=batch.target.lengths,
                               characters=grouped(target, groups, types=False)),
        target_in=batch.target_in, target_out=batch.target_out)


def derived(parameters, pairs, reverse=False, variant=None):
    """The derivation's loss and gradients, summed over the pairs."""
    total, sums = 0.0, {name: np.zeros_like(value) for name, value in parameters.items()}
    for x, y in pairs:
        rare = list(dict.fromkeys(word for word in x if isinstance(word, tuple)))
        ids = [V_S + rare.index(word) if isinstance(word, tuple) else word for word in x]
        case = (ids[::-1] if reverse else ids,
                [0 if isinstance(word, tuple) else word for word in y], rare,
                {t: word for t, word in enumerate(y, 1) if isinstance(word, tuple)})
        J, trace = hybrid_forward(parameters, *case, alpha=ALPHA, variant=variant or Variant())
        total += J
        for name, d in hybrid_backward(parameters, *case, trace).items():
            sums[name] = sums[name] + d
    return total, sums


def assert_same(actual, expected):
    assert actual[0] == pytest.approx(expected[0], rel=1e-12)
    assert set(actual[1]) == set(expected[1])
    for name, gradient in expected[1].items():
        np.testing.assert_allclose(actual[1][name], gradient, rtol=0,
                                   atol=1e-12 * max(np.abs(gradient).max(), 1.0), err_msg=name)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("path", ["separate", "same"])
def test_the_derivation(path, reverse, groups):
    parameters = parameters_of(path)
    actual = gradients(hybrid.loss, config(path), parameters, batch_of(PAIRS, groups, reverse),
                       reverse_source=reverse)
    expected = derived(parameters, PAIRS, reverse)
    assert_same(actual, expected)
    assert all(np.abs(gradient).max() > 1e-6 for gradient in expected[1].values())


@pytest.mark.parametrize("path", ["separate", "same"])
def test_without_feeding_and_with_another_score(path):
    sizes = replace(SIZES, input_feeding=False, score="concat", layers=1)
    parameters = parameters_of(path, sizes)
    settings = config(path, input_feeding=False, score="concat", layers=1, character_layers=1)
    assert_same(gradients(hybrid.loss, settings, parameters, batch_of(PAIRS)),
                derived(parameters, PAIRS, variant=sizes.variant))


def test_no_rare_word_is_the_word_model():
    parameters, pairs = parameters_of("separate"), [([2, 3], [4, 2]), ([3], [2])]
    words = {name: value for name, value in parameters.items() if "characters" not in name}
    loss, gradient_of = gradients(hybrid.loss, config(), parameters, batch_of(pairs))
    expected = gradients(luong.loss, config(), words, batch_of(pairs))
    assert_same((loss, {name: gradient_of[name] for name in words}), expected)
    assert not any(gradient_of[name].any() for name in set(gradient_of) - set(words))


@pytest.mark.parametrize("side", ["source", "target"])
def test_one_side_only(side):
    """On the other side, <unk> is an ordinary word."""
    parameters = parameters_of("separate")
    other_side = {"source": "target", "target": "source"}[side]
    settings = config(**{f"{other_side}_characters": False})
    kept = {name: value for name, value in parameters.items() if not name.startswith(other_side)}
    _, gradient_of = gradients(hybrid.loss, settings, kept, batch_of(PAIRS))
    assert gradient_of["encoder.W_e"][0].any() == (side == "target")
    assert all(gradient_of[name].any() for name in kept if name.startswith(f"{side}_characters"))


@pytest.mark.parametrize("site, weight, width", [
    ("source_characters.0.0", "source_characters.W_e", 5),
    ("target_characters.0.0", "target_characters.W_e", 5),
    ("target_characters.0.output", "target_characters.output.W_hy", 2),
    ("decoder.joined", ("attention.W_c", "target_characters.W_c"), 4),
])
def test_masks(site, weight, width):
    """A mask of twos has the effect of doubling the weights that read or make the masked values."""
    parameters, batch = parameters_of("separate"), batch_of(PAIRS)
    weights = (weight,) if isinstance(weight, str) else weight
    sides = {"source": batch.sources[0].characters, "target": batch.target.characters}
    characters = sides.get(site.partition("_")[0])
    steps = batch.target_in.shape if characters is None else characters[0].ids.shape
    twos = {site: np.full((*steps, width), 2.0)}
    loss, _ = gradients(hybrid.loss, config(), parameters, batch, twos)
    doubled = parameters | {name: 2 * parameters[name] for name in weights}
    assert loss == pytest.approx(gradients(hybrid.loss, config(), doubled, batch)[0], rel=1e-12)
    assert loss != pytest.approx(gradients(hybrid.loss, config(), parameters, batch)[0], rel=1e-6)


@pytest.mark.parametrize("unit, blocks", [("rnn", 1), ("gru", 3)])
def test_other_cells(unit, blocks):
    """Grouping words by length changes nothing, and every weight has a gradient."""
    parameters = {name: value[: len(value) // 4 * blocks] if name.endswith((".W", ".b"))
                  and "output" not in name else value
                  for name, value in parameters_of("separate").items()}
    single, two = (gradients(hybrid.loss, config(unit=unit), parameters, batch_of(PAIRS, groups))
                   for groups in (1, 2))
    assert_same(single, two)
    assert all(gradient.any() for gradient in single[1].values())
