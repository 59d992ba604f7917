"""The console observer: lines in a pipe, a bar in a terminal."""

import io

from rich.console import Console

from nmt.training.progress import ConsoleObserver, Progress

FACTS = {"loss": 1.0, "perplexity": 2.71828, "elapsed_seconds": 61.2}


def show(terminal):
    out = io.StringIO()
    observer = ConsoleObserver(Console(file=out, force_terminal=terminal, width=100,
                                       highlight=False))
    for position in (1, 2):
        observer.on_batch(Progress(3, 12, position, 2, 42, 0.5, 987.6, {"": 12.344}))
    observer.on_epoch(3, FACTS, {"perplexity": 9.5, "bleu": 21.04}, True)
    observer.close()
    return out.getvalue()


def test_a_pipe_gets_one_line_per_epoch():
    assert show(False) == ("epoch 3, training perplexity 2.72, dev perplexity 9.50, "
                           "dev BLEU 21.04, 61 s of training (best so far)\n")


def test_a_terminal_gets_a_bar_and_the_line():
    text = show(True)
    assert "epoch 3/12" in text and "left" in text
    assert "perplexity 12.34, 988 target tokens/s" in text
    assert "epoch 3, training perplexity 2.72" in text


def test_a_bar_before_the_first_line_of_the_log():
    out = io.StringIO()
    observer = ConsoleObserver(Console(file=out, force_terminal=True, width=100))
    observer.on_batch(Progress(1, 2, 1, 8, 1, 1.0, None))
    observer.close()
    assert "epoch 1/2" in out.getvalue() and "perplexity" not in out.getvalue()
