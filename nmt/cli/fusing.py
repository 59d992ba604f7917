"""A language model beside a translator: `nmt lm tune`, `nmt lm fuse`, `nmt translate --lm`."""

from __future__ import annotations

import argparse
from pathlib import Path

from backend.errors import UserError
from nmt.cli.options import add_model, add_models, add_new_run
from nmt.cli.training import begin, end
from nmt.console.arguments import at_least_zero, options_given, positive
from nmt.console.terminal import print
from nmt.data.corpus import read_parallel
from nmt.deep_fusing import fusion_recipe, fusion_start
from nmt.evaluation.scores import TOKENISATIONS, bleu
from nmt.fusing import with_language_model
from nmt.language_models import LanguageSystem
from nmt.run_files import check_new
from nmt.search.interface import chosen
from nmt.system import System
from nmt.translator_training import train

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


def add_tune(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt lm tune`."""
    parser.add_argument("source", type=Path, help="sentences of the dev set")
    parser.add_argument("references", type=Path, help="their translations")
    add_models(parser)
    parser.add_argument("--lm", type=Path, required=True, metavar="DIR",
                        help="add this language model, of the same target words")
    parser.add_argument("--weights", type=at_least_zero, nargs="+", default=WEIGHTS, metavar="BETA",
                        help=f"try these weights (default: {' '.join(map(str, WEIGHTS))})")
    parser.add_argument("--beam", type=positive, metavar="N",
                        help="keep N hypotheses (default: the recipe's)")
    parser.add_argument("--tokenize", choices=TOKENISATIONS, metavar="NAME",
                        help="tokenise this way for BLEU (default: the recipe's)")


def add_fuse(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt lm fuse`."""
    add_model(parser)
    parser.add_argument("--lm", type=Path, required=True, metavar="DIR",
                        help="fuse with this run of a language model")
    add_new_run(parser)


def run_fuse(options: argparse.Namespace) -> None:
    """`nmt lm fuse`.

    Train a new output layer for a translator (architecture rnnsearch), which also reads the state
    of a language model of the same target words (deep fusion). Both models stay as they are. The
    recipe is the translator's; --section.key VALUE changes it.
    """
    check_new(options.output)
    system = System.open(options.model, options.checkpoint)
    language = LanguageSystem.open(options.lm)
    recipe = fusion_recipe(options.model, system, language, options.overrides)
    start = fusion_start(recipe, system, language, str(options.lm))
    observer, corpus = begin(recipe, options.output)
    system = train(recipe, options.output, observer, corpus=corpus, start=start)
    end(system, options.output, corpus)


def run_tune(options: argparse.Namespace) -> None:
    """`nmt lm tune`.

    Translate a dev set with several weights beta of a language model (shallow fusion: each step
    adds beta log p of the language model to the translator's log p). Print BLEU for each weight,
    and the best weight to give to nmt translate --lm-weight.
    """
    system = System.open_all(options.model, options.average, options.checkpoint)
    language = LanguageSystem.open(options.lm)
    lines, references = read_parallel(options.source, options.references)
    sentences = [system.cut_source(line) for line in lines]
    system.check_sources(sentences, str(options.source))
    search = chosen(system.recipe.search, options.beam)
    scores = {}
    for beta in dict.fromkeys(options.weights):
        fused_system = with_language_model(system, language, beta, str(options.lm))
        texts = [system.text(nbest[0]) for nbest in fused_system.translate(sentences, search)]
        score = bleu(texts, references, options.tokenize or system.recipe.evaluate.bleu_tokenize)
        scores[beta] = score.score
        print(f"beta {beta:g}: BLEU {score.score:.2f}", flush=True)
    best = max(scores, key=lambda beta: (scores[beta], -beta))
    print(f"best: --lm-weight {best:g}")


def fused(system: System, options: argparse.Namespace) -> System:
    """The translator with the language model that `--lm` names, if any."""
    if (options.lm is None) != (options.lm_weight is None):
        raise UserError("--lm DIR and --lm-weight BETA: each needs the other")
    if options.lm is None:
        return system
    for option in options_given(options, "sample", "sparse", "shortlist"):
        raise UserError(f"{option}: cannot be used with --lm")
    language = LanguageSystem.open(options.lm)
    return with_language_model(system, language, options.lm_weight, str(options.lm))
