"""Real text, if it is beside the repository: reading, counting, one pass forward and backward."""

from pathlib import Path

import numpy as np
import pytest

from backend.errors import UserError
from nmt.analysis.similarity import read_pairs, similarity
from nmt.data.align import GoldOptions, alignment_score, read_gold
from nmt.data.aligner import align
from nmt.data.aligner.symmetrise import grow_diag_final_and
from nmt.data.corpora import load_corpus
from nmt.data.corpus import read_lines
from nmt.data.tokenise import tokeniser
from nmt.data.trees import read_trees, repair
from nmt.data.vocabulary import Vocabulary
from nmt.language_models import Streams, tokens_of
from nmt.models.translator import ModelConfig
from nmt.recipe import DataConfig, Recipe, TextConfig
from nmt.system import System
from nmt.translator_training import build_vocabularies

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MULTI30K, TEXT = DATA / "multi30k" / "tok", DATA / "text"
WMT = DATA / "wmt_deen_10k"
NAMES = {f"{split}_{side}": f"{file}.lc.norm.tok.{language}"  # of Multi30k's files
         for split, file in (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr"))
         for side, language in (("source", "de"), ("target", "en"))}
WORD_SIMILARITY = DATA / "word_similarity"
GUM = DATA / "trees" / "gum_cc_by"
EUROPARL, HANSARDS = DATA / "europarl_deen_gold", DATA / "hansards" / "validation"


def need(directory):
    reason = f"no {directory.relative_to(DATA)} in ../shared/data"
    return pytest.mark.skipif(not directory.is_dir(), reason=reason)


@pytest.mark.parametrize("pattern", ["multi30k/raw/*.*", "tatoeba/fra.txt", "hansards/*/dev.[ef]"])
def test_the_joiner_restores_every_line(pattern: str) -> None:
    paths, joiner = sorted(DATA.glob(pattern)), tokeniser("joiner", "en")
    if not paths:
        pytest.skip(f"no {pattern} in ../shared/data")
    for text in {text for path in paths for line in read_lines(path) for text in line.split("\t")}:
        assert joiner.detokenise(joiner.tokenise(text)) == text


@need(MULTI30K)
def test_multi30k_goes_through_a_model_forward_and_back() -> None:
    data = DataConfig(directory=str(MULTI30K), **NAMES, tokenise="none", min_frequency=2,
                      max_length=30, reverse_source=True)
    corpus = load_corpus(data)
    assert corpus.test is not None
    assert len(corpus.train) + corpus.empty + corpus.too_long == 29000 and corpus.too_long > 0
    assert (len(corpus.dev.references), len(corpus.test.references)) == (1014, 1000)
    recipe = Recipe(data, ModelConfig(layers=2, hidden_size=8, embedding_size=8, dropout=0.2))
    system = System.create(recipe, build_vocabularies(corpus, recipe))
    assert 7000 < len(system.source) < 9000 and 5000 < len(system.target) < 7000
    batches = system.batches(corpus.train, 16)
    rng = np.random.default_rng(1)
    batch = batches.batch(batches.epoch(rng)[0])
    noise = system.model.noise(batch, rng, "float32")
    loss, cache = system.model.loss(system.parameters, batch, noise)
    # Fresh parameters are small: every word is about equally likely.
    assert abs(float(loss) / batches.tokens(batch) - np.log(len(system.target))) < 0.1
    gradients = system.model.backward(cache)
    assert gradients.keys() == system.parameters.keys()
    for name, gradient in gradients.items():
        values = getattr(gradient, "values", gradient)
        assert np.isfinite(values).all() and np.any(values), name


@need(MULTI30K)
@need(WORD_SIMILARITY)
def test_rare_words_and_a_small_vocabulary() -> None:
    """Most of the rated words are not in Multi30k's English."""
    words = [line.split() for line in read_lines(MULTI30K / NAMES["train_target"])]
    vocabulary = Vocabulary.build(words)
    recipe = Recipe(DataConfig(directory=str(MULTI30K), **NAMES),
                    ModelConfig(layers=1, hidden_size=8, embedding_size=8))
    system = System.create(recipe, {"source": vocabulary, "target": Vocabulary(["a"])})
    result = similarity(system, read_pairs(WORD_SIMILARITY / "rare.txt"))
    assert (result.pairs, result.known, result.half_known) == (2034, 76, 840)
    assert result.without_vector == 2034 - 76
    assert all(np.isfinite([agreement.all, agreement.known]).all()
               for agreement in result.agreements)


@need(TEXT)
def test_characters_of_shakespeare_make_streams() -> None:
    tokens = tokens_of(read_lines(TEXT / "tinyshakespeare.txt"), "characters")
    vocabulary = Vocabulary.build([tokens])
    assert (len(tokens), len(vocabulary)) == (1115394, 65 + 2)
    streams = Streams(vocabulary.ids(tokens), TextConfig(train="t", streams=32, length=64))
    total = sum(streams.tokens(streams.batch(key)) for key in streams.epoch(
        np.random.default_rng(1)))
    assert len(tokens) - 32 <= total < len(tokens)


@need(TEXT)
def test_words_of_war_and_peace() -> None:
    sizes = [len(read_lines(TEXT / f"wap.{split}.txt")) for split in ("train", "valid", "test")]
    assert sizes == [36243, 7870, 8052]  # the last line of each has no line end


def sizes_of(source, target):
    lines = zip(read_lines(source), read_lines(target), strict=True)
    return [(len(x.split()), len(y.split())) for x, y in lines]


@need(EUROPARL)
def test_gold_alignments_of_europarl_in_both_formats() -> None:
    sizes = sizes_of(EUROPARL / "test.de", EUROPARL / "test.en")  # the German has a BOM
    assert len(sizes) == 100 and sizes[62] == (13, 13)
    pharaoh, naacl = EUROPARL / "de-en.wa", EUROPARL / "de-en.ref.wa"
    with pytest.raises(UserError, match=r"de-en.wa:63: link '12-16': expected a target word from "
                                        "0 to 12, got 16"):
        read_gold(pharaoh, sizes)
    with pytest.raises(UserError, match=r"de-en.ref.wa:1: .*source word from 1 to \d+, got 0"):
        read_gold(naacl, sizes)
    gold, other_format = (read_gold(path, sizes, GoldOptions(first=0, drop=True))
                          for path in (pharaoh, naacl))
    assert gold == other_format and gold.dropped == 1
    assert sum(len(pair.sure) for pair in gold.gold) == 1232
    assert all(pair.sure == pair.possible for pair in gold.gold)


@need(HANSARDS)
def test_gold_alignments_of_the_hansards() -> None:
    sizes = sizes_of(HANSARDS / "dev.e", HANSARDS / "dev.f")
    gold, dropped = read_gold(HANSARDS / "dev.wa.nonullalign", sizes)
    assert (len(gold), dropped) == (37, 0)
    assert sum(len(pair.sure) for pair in gold) == 338
    assert sum(len(pair.possible) for pair in gold) == 338 + 1446
    assert alignment_score([pair.possible for pair in gold], gold).error_rate == 0.0


@need(EUROPARL)
@need(WMT)
def test_the_aligner_on_europarl() -> None:
    """Trained on the gold sentences and others; the HMM is better than Model 1 by far."""
    files = [(EUROPARL / f"test.{side}", WMT / f"train.10k.{side}") for side in ("de", "en")]
    sources, targets = ([line.lower().split() for path in paths for line in read_lines(path)]
                        for paths in files)
    sizes = sizes_of(EUROPARL / "test.de", EUROPARL / "test.en")
    gold = read_gold(EUROPARL / "de-en.wa", sizes, GoldOptions(drop=True)).gold
    rates = {}
    for method in ("model1", "hmm"):
        *both, _ = align(sources[:5000], targets[:5000], method)
        links = [grow_diag_final_and(*pair_of_links) for pair_of_links in zip(*both, strict=True)]
        rates[method] = alignment_score(links[:100], gold).error_rate
    assert 0.20 < rates["hmm"] < 0.30 < rates["model1"] < 0.42


@need(GUM)
def test_trees_of_gum() -> None:
    trees = [tree for path in sorted(GUM.glob("*.ptb")) for tree in read_trees(path)]
    assert (len(trees), sum(len(tree.words) for tree in trees)) == (3038, 63666)
    assert len({symbol for tree in trees for symbol in tree.symbols}) == 53
    assert all(repair(tree.symbols) == tree.symbols for tree in trees)
