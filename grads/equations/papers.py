"""What the five papers number: equations, algorithms and their lines, with titles of our own.

Each line is a number and a title. A title `= NUMBER` says that the paper (or, with a paper's
name, another one) has printed the same equation before; `~` before a title says that there is
nothing to build: background, or a step on the way to another equation. A formula without a number
of its own goes by its section and a word, as in `4.2.1 dot`; a paper without sections, by a word.
"""

from __future__ import annotations

from typing import NamedTuple

from grads.equations import thesis as equation_list_thesis

THESIS = "thesis"


class Item(NamedTuple):
    """One equation, algorithm or line of an algorithm."""

    paper: str  # a key of PAPERS
    number: str  # "2.36", "4.2.1 dot", "Algorithm 2", "Algorithm 2 line 7"
    title: str
    same_as: tuple[str, str] | None = None  # paper and number of what it repeats
    background: bool = False  # nothing to build


class Paper(NamedTuple):
    """A paper: what it is called in a citation, and in full."""

    name: str
    title: str
    numbers: str  # one item a line


_BAHDANAU = """
1: = thesis 2.2
2: = thesis 2.51
3: ~ a word's probability in general
4: ~ a word's probability with a context of its own
5: = thesis 4.2.1 context
6: = thesis 4.7
7: states of both directions, joined
A.1.1 unit: = A.2.2 state
A.1.2 score: additive score
A.2.1 state: encoder unit, state
A.2.1 candidate: encoder unit, proposed state
A.2.1 update: encoder unit, update gate
A.2.1 reset: encoder unit, reset gate
A.2.2 state: decoder unit, state
A.2.2 candidate: decoder unit, proposed state
A.2.2 update: decoder unit, update gate
A.2.2 reset: decoder unit, reset gate
A.2.2 initial: first state of the decoder
A.2.2 output: distribution over words
A.2.2 maxout: maxout layer
A.2.2 deep: what maxout reads
B.1 initialisation: orthogonal, Gaussian and zero
"""

_SENNRICH = """
decomposition: = thesis 2.51
encoder: = Bahdanau 7
decoder: decoder with context, plain recurrent unit
attention: additive score, weights, context
sampling: a word drawn from its distribution
greedy: the most probable word
beam: the K best prefixes
ensemble: averaged log-probabilities
bpe: byte pair encoding
features: joined embeddings of input features
fusion: shallow and deep fusion
"""

_NGUYEN = """
1.1: = thesis Algorithm 3 line 7
1.2: = thesis 4.2.1 context
1.3: = thesis 4.2.1 dot
1.4: = thesis 4.7
1.5: = thesis 4.6
1.6: = thesis 2.51
1.7: self-attention: queries, keys, values
1.8: scaled dot-product attention
1.9: heads joined
1.10: attention to the encoder: queries
1.11: attention to the encoder: keys
1.12: attention to the encoder: values
1.13: feed-forward layer
1.14: position encoding, even places
1.15: position encoding, odd places
3.1.3 lp: length-normalised score
3.1: = thesis 4.6
3.2.2 tied: output weights that are the target embeddings
3.2.3 fixnorm: embeddings of one norm
3.2.4 lexical: lexical module
3.2: residual connection
3.3: PostNorm
3.4: PreNorm
3.5: Xavier's normal initialisation
3.6: ScaleNorm
3.7: ScaleNorm and FixNorm together
3.8: learning rate with warm-up and inverse square root
4.1: length model
4.2: ~ a feed-forward layer
4.3: shared and private weights
"""

_NAIR = """
2 score: = thesis 2.52
4 state: = thesis 2.3
4 embedding: = thesis Algorithm 3 line 7
5 logits: = thesis 2.4
5 softmax: = thesis 2.6
5 sentence: = thesis 2.1
6.2 step 1: = thesis 2.3
6.2 step 2: context: the encoder's last state
6.2 step 3: first state of the decoder
6.2 step 4a: decoder that reads the context at every step
6.2 step 4b: = Sennrich sampling
6.3 score: = thesis 2.52
6.5 beam: beam search with every size up to B
7.2 both: = Bahdanau 7
7.2 score: score from state and last word
7.2 weights: = thesis 4.7
7.2 context: = thesis 4.2.1 context
"""

PAPERS = {
    THESIS: Paper("thesis", "M.-T. Luong, Neural Machine Translation, Stanford University, 2016",
                  equation_list_thesis.NUMBERS),
    "Bahdanau": Paper("Bahdanau", "D. Bahdanau, K. Cho, Y. Bengio, Neural Machine Translation by "
                      "Jointly Learning to Align and Translate, ICLR 2015", _BAHDANAU),
    "Sennrich": Paper("Sennrich", "R. Sennrich, Neural Machine Translation, slides, 2016",
                      _SENNRICH),
    "Nguyen": Paper("Nguyen", "T. Nguyen, candidacy document, University of Notre Dame, 2019",
                    _NGUYEN),
    "Nair": Paper("Nair", "A. Nair, A. Shah, Language Modeling and Machine Translation with "
                  "Recurrent Neural Networks, notes, 2016", _NAIR),
}


def read_items() -> dict[tuple[str, str], Item]:
    """Every item by paper and number, in the papers' order."""
    items: dict[tuple[str, str], Item] = {}
    for key, paper in PAPERS.items():
        algorithm = ""
        for line in paper.numbers.strip().splitlines():
            number, _, title = line.partition(": ")
            if number.startswith("Algorithm"):
                algorithm = number
            elif number.startswith("line"):
                number = f"{algorithm} {number}"
            items[key, number] = _item(key, number, title)
    return items


def _item(paper: str, number: str, title: str) -> Item:
    if title.startswith("= "):
        other, _, rest = title[2:].partition(" ")
        same = (other, rest) if other in PAPERS else (paper, title[2:])
        return Item(paper, number, "", same)
    if title.startswith("~ "):
        return Item(paper, number, title[2:], background=True)
    return Item(paper, number, title)
