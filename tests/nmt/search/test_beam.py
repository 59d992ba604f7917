"""Greedy and beam search over toy models, against enumerating every translation."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from strict.module import strict

import backend
from nmt.data.batches import Side
from nmt.data.vocabulary import END, UNKNOWN
from nmt.models.contract import Searchable
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from nmt.search.beam import beam_search, best_candidates, greedy, search
from nmt.search.interface import SearchOptions
from nmt.search.sample import sample

SOURCES = [(3, 4), (5,), (2, 2, 7), (6, 3), (4, 4, 4, 9)]


def log_softmax(logits):
    return logits - np.logaddexp.reduce(logits)


class Markov:
    """Tables: the next token depends on the token before, the position and the first source id.

    Without the position, translations with the same transitions in another order would tie.
    """

    def __init__(self, V, seed=0, ids=10):
        self.V = V
        self.table = np.random.default_rng(seed).normal(scale=1.5, size=(ids, 16, V, V))

    def logits(self, source, prefix):
        return self.table[source[0], len(prefix), prefix[-1]]


class Remembering:
    """The next token depends on the whole source and on all tokens before it, in order."""

    def __init__(self, V, seed=0):
        self.V, self.seed = V, seed

    def logits(self, source, prefix):
        key = [self.seed, 77, *source, 77, *prefix]
        return np.random.default_rng(key).normal(scale=1.5, size=self.V)


def attention(source, prefix):
    """An alignment that is different for every prefix."""
    return np.random.default_rng([5, *source, 77, *prefix]).random(len(source))


class Model(Searchable):
    """A rule with the interface that search needs. Its state is the tokens that each row has
    read."""

    def __init__(self, rule, dtype=np.float64, aligned=True):
        self.rule, self.dtype, self.aligned = rule, dtype, aligned
        self.rows_per_step = []

    def encode(self, parameters, sources, rows):
        [side] = sources
        read = [tuple(side.ids[:n, b]) for b, n in enumerate(side.lengths)]
        assert len(read) == rows
        return read, [()] * rows

    def step(self, parameters, state, tokens):
        sources, prefixes = state
        assert tokens.shape == (len(prefixes),)
        self.rows_per_step.append(len(prefixes))
        k = len(prefixes) // len(sources)
        prefixes = [(*p, int(t)) for p, t in zip(prefixes, tokens, strict=True)]
        rows = [(sources[n // k], p) for n, p in enumerate(prefixes)]
        logits = np.stack([self.rule.logits(*row) for row in rows]).astype(self.dtype)
        width = max(map(len, sources))
        alignment = np.full((len(rows), width), 9.0)
        for n, row in enumerate(rows):
            alignment[n, : len(row[0])] = attention(*row)
        alignment = backend.to_device(alignment) if self.aligned else None
        return backend.to_device(logits), (sources, prefixes), alignment

    def select(self, state, rows, sentences):
        sources, prefixes = state
        before, after = len(prefixes) // len(sources), len(rows) // len(sentences)
        assert len(rows) == after * len(sentences)
        np.testing.assert_array_equal(rows // before, np.repeat(sentences, after))
        return [sources[s] for s in sentences], [prefixes[r] for r in rows]


def pad(sources):
    S = max(map(len, sources))
    padded = [[*source, *[END] * (S - len(source))] for source in sources]
    return (Side(np.array(padded).T, np.array([len(source) for source in sources])),)


def enumerate_all(rule, source, limit, alpha=0.0):
    """Every finished translation within the limit: (score, log-probability, tokens), best first."""
    translations = []

    def grow(prefix, total):
        log_p = log_softmax(rule.logits(source, prefix))
        steps = len(prefix)
        final = total + log_p[END]
        translations.append((final / ((5 + steps) / 6) ** alpha, final, list(prefix[1:])))
        if steps < limit:
            for token in range(rule.V):
                if token != END:
                    grow((*prefix, token), total + log_p[token])

    grow((END,), 0.0)
    return sorted(translations, key=lambda item: -item[0])


def limits(sources, options):
    return [max(math.ceil(options.length_factor * len(s)), options.minimum_steps) for s in sources]


def check(hypothesis, expected):
    score, log_probability, tokens = expected
    assert hypothesis.finished
    assert hypothesis.tokens == tokens
    assert hypothesis.log_probability == pytest.approx(log_probability, rel=1e-12)
    assert hypothesis.score == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize("rule", [Markov(3), Markov(4, seed=3), Remembering(4)],
                         ids=["markov3", "markov4", "remembering"])
@pytest.mark.parametrize("alpha", [0.0, 0.8, 2.0])
def test_a_wide_beam_finds_every_translation_in_order(rule, alpha):
    options = SearchOptions(beam=400, nbest=400, minimum_steps=5, length_factor=1.0,
                            length_normalisation=alpha)
    results = beam_search(Model(rule), {}, pad(SOURCES), options)
    for source, limit, hypotheses in zip(SOURCES, limits(SOURCES, options), results, strict=True):
        expected = enumerate_all(rule, source, limit, alpha)
        finished = [h for h in hypotheses if h.finished]
        for hypothesis, translation in zip(finished, expected, strict=True):
            check(hypothesis, translation)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_longer_translations_that_normalisation_favours_are_waited_for(seed, alpha):
    rule = Remembering(3, seed=seed)
    options = SearchOptions(beam=32, minimum_steps=6, length_factor=1.0,
                            length_normalisation=alpha)
    results = beam_search(Model(rule), {}, pad(SOURCES), options)
    for source, [best] in zip(SOURCES, results, strict=True):
        check(best, enumerate_all(rule, source, 6, alpha)[0])


@pytest.mark.parametrize("rule", [Markov(6), Remembering(150)], ids=["markov", "remembering"])
def test_greedy_is_the_chain_of_largest_logits(rule):
    options = SearchOptions(minimum_steps=8)
    results = greedy(Model(rule), {}, pad(SOURCES), options)
    for source, limit, hypothesis in zip(SOURCES, limits(SOURCES, options), results, strict=True):
        prefix, total = (END,), 0.0
        while len(prefix) <= limit:
            log_p = log_softmax(rule.logits(source, prefix))
            token = int(np.argmax(log_p))
            prefix, total = (*prefix, token), total + log_p[token]
            if token == END:
                break
        assert hypothesis.finished == (prefix[-1] == END)
        assert hypothesis.tokens == list(prefix[1:-1] if hypothesis.finished else prefix[1:])
        assert hypothesis.score == hypothesis.log_probability == pytest.approx(total, rel=1e-12)


def reference_beam(rule, source, limit, K):
    """Beam search with lists for one sentence, without early stopping: the finished hypotheses,
    best first."""
    active, finished = [((END,), 0.0)], []
    for _ in range(limit):
        grown = []
        for prefix, total in active:
            log_p = log_softmax(rule.logits(source, prefix))
            grown += [((*prefix, v), total + log_p[v]) for v in range(rule.V)]
        grown.sort(key=lambda item: -item[1])
        finished += [item for item in grown[:K] if item[0][-1] == END]
        active = [item for item in grown if item[0][-1] != END][:K]
    return sorted(finished, key=lambda item: -item[1]), active


@pytest.mark.parametrize("K", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_a_narrow_beam_equals_a_plain_one(K, seed):
    rule = Remembering(6, seed=seed)
    options = SearchOptions(beam=K, nbest=K, minimum_steps=7)
    results = beam_search(Model(rule), {}, pad(SOURCES), options)
    for source, limit, hypotheses in zip(SOURCES, limits(SOURCES, options), results, strict=True):
        finished, active = reference_beam(rule, source, limit, K)
        taken = [(list(p[1:-1]), total) for p, total in finished[:K]]
        taken += [(list(p[1:]), total) for p, total in active[: K - len(taken)]]
        expected = [tokens for tokens, _ in sorted(taken, key=lambda item: -item[1])]
        assert [h.tokens for h in hypotheses] == expected


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_one_best_is_the_first_of_n_best(alpha):
    options = SearchOptions(beam=5, nbest=5, length_normalisation=alpha)
    model = Model(Remembering(7, seed=9))
    for nbest in (1, 2):
        few = beam_search(model, {}, pad(SOURCES), replace(options, nbest=nbest))
        many = beam_search(model, {}, pad(SOURCES), options)
        for fewer, all_five in zip(few, many, strict=True):
            assert [h.tokens for h in fewer] == [h.tokens for h in all_five[:nbest]]


@pytest.mark.parametrize("rule", [Markov(9, seed=4), Remembering(130, seed=4)],
                         ids=["markov", "remembering"])
def test_a_batch_equals_each_sentence_alone(rule):
    options = SearchOptions(beam=4, nbest=4, minimum_steps=2, length_normalisation=0.8)
    together = beam_search(Model(rule), {}, pad(SOURCES), options)
    for source, hypotheses in zip(SOURCES, together, strict=True):
        [alone] = beam_search(Model(rule), {}, pad([source]), options)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in alone])
        for hypothesis, other in zip(hypotheses, alone, strict=True):
            np.testing.assert_array_equal(hypothesis.alignment, other.alignment)


def test_alignments_follow_the_ancestors():
    options = SearchOptions(beam=6, nbest=6, minimum_steps=6)
    results = beam_search(Model(Remembering(6, seed=1)), {}, pad(SOURCES), options)
    for source, hypotheses in zip(SOURCES, results, strict=True):
        for hypothesis in hypotheses:
            read = (END, *hypothesis.tokens)
            steps = len(hypothesis.tokens) + hypothesis.finished
            expected = [attention(source, read[: t + 1]) for t in range(steps)]
            np.testing.assert_array_equal(hypothesis.alignment, np.stack(expected))


def test_without_attention_there_is_no_alignment():
    results = beam_search(Model(Markov(4), aligned=False), {}, pad(SOURCES), SearchOptions(beam=2))
    assert all(h.alignment is None for hypotheses in results for h in hypotheses)


class Endless:
    """The end marker has probability exp(-20), or zero with -inf; token 2 is likely."""

    def __init__(self, end):
        self.V, self.end = 4, end

    def logits(self, source, prefix):
        return np.array([0.0, self.end, 3.0, 1.0])


def test_the_limit_returns_what_there_is():
    options = SearchOptions(beam=3, nbest=3, minimum_steps=2, length_factor=1.5)
    results = beam_search(Model(Endless(-np.inf)), {}, pad(SOURCES), options)
    log_p = log_softmax(Endless(-np.inf).logits((), ()))
    for limit, hypotheses in zip([3, 2, 5, 3, 6], results, strict=True):
        assert [h.finished for h in hypotheses] == [False] * 3
        assert hypotheses[0].tokens == [2] * limit
        assert hypotheses[0].log_probability == pytest.approx(limit * log_p[2])
        assert len(hypotheses[0].alignment) == limit
    chains = greedy(Model(Endless(-20.0)), {}, pad(SOURCES), options)
    assert [h.tokens for h in chains] == [[2] * limit for limit in (3, 2, 5, 3, 6)]


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_cut_hypotheses_fill_up_and_stand_among_finished_ones_by_score(alpha):
    rule, options = Endless(-1.0), SearchOptions(beam=12, nbest=12, minimum_steps=2,
                                                 length_normalisation=alpha)
    [hypotheses] = beam_search(Model(rule), {}, pad([(5,)]), options)
    scores = [h.score for h in hypotheses]
    assert scores == sorted(scores, reverse=True)
    kinds = [h.finished for h in hypotheses]
    assert kinds.count(True) == 4 and not kinds[0] and kinds != sorted(kinds)
    best = next(h for h in hypotheses if h.finished)
    [[single]] = beam_search(Model(rule), {}, pad([(5,)]), replace(options, nbest=1))
    assert single.finished and (single.tokens, single.score) == (best.tokens, best.score)
    [few] = beam_search(Model(rule), {}, pad([(5,)]), replace(options, nbest=4))
    assert [h.tokens for h in few] == [h.tokens for h in hypotheses if h.finished]


def test_done_sentences_leave_the_batch():
    model = Model(Markov(8, seed=2))
    options = SearchOptions(beam=3, minimum_steps=2, length_factor=2.0)
    beam_search(model, {}, pad([(3,), (3, 4, 4), (3, 4, 4, 4, 4)]), options)
    assert model.rows_per_step[0] == 3
    assert sorted(model.rows_per_step[1:], reverse=True) == model.rows_per_step[1:]
    assert model.rows_per_step[-1] < 9
    model = Model(Endless(-np.inf))
    beam_search(model, {}, pad([(3,), (3, 4, 4)]), options)
    assert model.rows_per_step == [2, 6, 3, 3, 3, 3]


def test_only_candidates_come_to_the_host(monkeypatch):
    sizes = []
    monkeypatch.setattr("nmt.search.beam.to_host",
                        lambda a: sizes.append(np.size(a)) or np.asarray(a))
    model = Model(Remembering(500), aligned=False)
    beam_search(model, {}, pad(SOURCES), SearchOptions(beam=3, nbest=3))
    assert max(sizes) == len(SOURCES) * 6
    assert len(sizes) == 2 * len(model.rows_per_step)


@pytest.mark.parametrize("unknown", [True, False])
@pytest.mark.parametrize("K", [1, 4])
def test_on_a_device_the_result_is_the_same(K, unknown):
    strict.install()
    options = SearchOptions(beam=K, nbest=K, length_normalisation=0.5, unknown=unknown)
    expected = beam_search(Model(Remembering(450)), {}, pad(SOURCES), options)
    model = Model(Remembering(450))
    with backend.using(strict):
        strict.counts.reset()
        results = beam_search(model, {}, pad(SOURCES), options)
    for nbest, other in zip(results, expected, strict=True):
        assert [(h.tokens, h.score, h.finished) for h in nbest] == [
            (h.tokens, h.score, h.finished) for h in other]
        for here, there in zip(nbest, other, strict=True):
            np.testing.assert_array_equal(here.alignment, there.alignment)
    steps = len(model.rows_per_step)
    # To the host: two arrays of candidates, the alignment, what `<unk>` leaves where it may not be.
    # From it: the sums; two by the model.
    assert (strict.counts.to_host, strict.counts.to_device) == ((4 - unknown) * steps, 3 * steps)
    assert strict.counts.syncs == 0


class Broken:
    V = 4

    def logits(self, source, prefix):
        return np.array([0.0, 0.0, np.nan if len(prefix) == 2 else 1.0, 0.0])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_diverged_model_is_an_error():
    with pytest.raises(FloatingPointError, match="not finite"):
        greedy(Model(Broken()), {}, pad(SOURCES), SearchOptions())


def test_an_empty_batch():
    nothing = (Side(np.zeros((0, 0), np.int64), np.zeros(0, np.int64)),)
    assert beam_search(Model(Markov(4)), {}, nothing, SearchOptions(beam=2)) == []


@pytest.mark.parametrize("bad", [
    {"beam": 0}, {"beam": 2.0}, {"beam": True}, {"nbest": 2}, {"nbest": 0}, {"minimum_steps": 0},
    {"length_factor": 0.0}, {"length_factor": math.nan}, {"length_normalisation": -0.1},
    {"length_normalisation": math.inf},
])
def test_bad_options_name_themselves(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        SearchOptions(**bad)


def test_a_search_needs_a_source():
    with pytest.raises(ValueError, match="sources: expected at least one, got none"):
        beam_search(Model(Markov(4)), {}, (), SearchOptions())


# --- without <unk> --------------------------------------------------------------------------------


class Fixed:
    """The same logits at every step, in one array of the model's own; `<unk>` is likeliest."""

    V = 4

    def __init__(self):
        self.table = np.log(np.array([0.6, 0.1, 0.1, 0.2]))

    def logits(self, source, prefix):
        return self.table


class Shared(Model):
    """Returns its own array of logits, not a copy."""

    def step(self, parameters, state, tokens):
        _, state, alignment = super().step(parameters, state, tokens)
        return np.broadcast_to(self.rule.table, (len(tokens), 4)), state, alignment


@pytest.mark.parametrize("alpha", [0.0, 0.8])
@pytest.mark.parametrize("rule", [Markov(4, seed=3), Remembering(4)], ids=["markov", "remembering"])
def test_without_unknown_the_others_keep_the_models_probability(rule, alpha):
    """All translations without `<unk>`, and no others, in order of their log p under the model."""
    options = SearchOptions(beam=400, nbest=400, minimum_steps=5, length_factor=1.0,
                            length_normalisation=alpha, unknown=False)
    results = beam_search(Model(rule), {}, pad(SOURCES), options)
    for source, limit, hypotheses in zip(SOURCES, limits(SOURCES, options), results, strict=True):
        every = enumerate_all(rule, source, limit, alpha)
        assert all(UNKNOWN not in h.tokens for h in hypotheses)
        known = [translation for translation in every if UNKNOWN not in translation[2]]
        finished = [h for h in hypotheses if h.finished]
        for hypothesis, translation in zip(finished, known, strict=True):
            check(hypothesis, translation)


def test_without_unknown_every_search_leaves_it_out_and_the_models_logits_alone():
    rule = Fixed()
    before, model, step_limits = rule.table.copy(), Shared(rule), np.full(5, 6)
    rng = np.random.default_rng(1)
    for unknown in (True, False):
        options = SearchOptions(beam=3, unknown=unknown)
        nbests = beam_search(model, {}, pad(SOURCES), options, step_limits)
        beams = [hypothesis for [hypothesis] in nbests]
        chains = greedy(model, {}, pad(SOURCES), options, step_limits)
        drawn = sample(model, {}, pad(SOURCES), options, 1.0, rng, step_limits)
        for hypotheses in (chains, drawn) if unknown else (beams, chains, drawn):
            assert any(UNKNOWN in h.tokens for h in hypotheses) == unknown
        for h in (*beams, *chains, *drawn):
            read = [*h.tokens, *[END] * h.finished]
            assert h.log_probability == pytest.approx(before[read].sum())
    assert [h.tokens for h in chains] == [[3] * 6] * 5
    np.testing.assert_array_equal(rule.table, before)


def test_nothing_but_unknown_and_the_end_leaves_the_end():
    for options in (SearchOptions(unknown=False), SearchOptions(beam=3, nbest=3, unknown=False)):
        for [hypothesis] in beam_search(Model(Markov(2)), {}, pad(SOURCES), options):
            assert hypothesis.finished and hypothesis.tokens == []


# --- limits on steps, and search from a state -----------------------------------------------------


def test_the_limits_given_stand_before_those_of_the_options():
    """In greedy search, beam search and sampling; the lengths of sources then have no effect."""
    step_limits, model = np.array([1, 4, 2, 6, 3]), Model(Endless(-np.inf))
    options = SearchOptions(beam=2)
    nbests = beam_search(model, {}, pad(SOURCES), options, step_limits)
    beams = [hypothesis for [hypothesis] in nbests]
    drawn = sample(model, {}, pad(SOURCES), options, 1.0, np.random.default_rng(1), step_limits)
    for hypotheses in (beams, greedy(model, {}, pad(SOURCES), options, step_limits), drawn):
        assert [len(hypothesis.tokens) for hypothesis in hypotheses] == step_limits.tolist()


@pytest.mark.parametrize("limits", [[3, 3, 3, 3], [[3] * 5], [3, 3, 0, 3, 3]])
def test_bad_limits_name_themselves(limits):
    with pytest.raises(ValueError, match="limits: expected 5 numbers of at least 1, got"):
        beam_search(Model(Markov(4)), {}, pad(SOURCES), SearchOptions(), np.array(limits))


def test_a_search_from_a_state_is_the_search_after_its_sources():
    """Alignments are cut to `lengths`, and without lengths there are none."""
    rule, options = Remembering(6, seed=3), SearchOptions(beam=4, nbest=4)
    [side], model = pad(SOURCES), Model(rule)
    expected = beam_search(model, {}, (side,), options)
    how = options.step_limits(side.lengths), options, partial(best_candidates, count=8)
    for lengths in (side.lengths, None):
        state = model.encode({}, (side,), len(SOURCES))
        results = search(model, {}, state, *how, lengths)
        for nbest, other in zip(results, expected, strict=True):
            assert [(h.tokens, h.score) for h in nbest] == [(h.tokens, h.score) for h in other]
            for here, there in zip(nbest, other, strict=True):
                if lengths is None:
                    assert here.alignment is None
                else:
                    np.testing.assert_array_equal(here.alignment, there.alignment)


def test_a_language_model_is_searched_from_its_state():
    """A wide beam finds every text within the limits, best first, from the beginning of a text and
    from its middle."""
    model = LanguageModel(LanguageModelConfig(layers=1, hidden_size=4, embedding_size=3), 4)
    parameters = {name: 8.0 * array for name, array in
                  model.initial_parameters(np.random.default_rng(2), "float64").items()}
    begin = model.encode(parameters, (), 2)
    _, later, _ = model.step(parameters, begin, np.array([2, 3]))
    limits, options = np.array([3, 4]), SearchOptions(beam=200, nbest=200)
    for state in (begin, later):
        results = search(model, parameters, state, limits, options,
                       partial(best_candidates, count=400))
        for b, (limit, hypotheses) in enumerate(zip(limits, results, strict=True)):
            rule = Stepping(model, parameters, model.select(state, np.array([b]), np.array([b])))
            finished = [h for h in hypotheses if h.finished]
            expected = enumerate_all(rule, (), limit)
            assert len(finished) == len(expected) == sum(3**n for n in range(limit))
            for hypothesis, translation in zip(finished, expected, strict=True):
                check(hypothesis, translation)
    with pytest.raises(ValueError, match="sources: expected at least one, got none"):
        beam_search(model, parameters, (), options)


class Stepping:
    """A model as a rule: the logits after all that was read, step by step from a state."""

    def __init__(self, model, parameters, state):
        self.V, self.model, self.parameters, self.state = 4, model, parameters, state

    def logits(self, source, prefix):
        state = self.state
        for token in prefix:
            logits, state, _ = self.model.step(self.parameters, state, np.array([token]))
        return logits[0]
