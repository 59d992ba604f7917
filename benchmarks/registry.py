"""The benchmarks by name: the module of each, and what it does in a line."""

from __future__ import annotations

ABOUT = {
    "step": ("step", "time a training step of a 2x512 translator against eager PyTorch"),
    "variants": ("step", "time it for every attention variant, RNNsearch and a Transformer"),
    "recipes": ("recipes", "measure the recipes' target tokens/s, and split the time by part"),
    "recipes-large": ("recipes", "do the same at the thesis's size, which takes minutes"),
    "memory": ("memory", "measure a training step's peak memory beside the least it needs"),
    "search": ("search", "time greedy and beam search against batched PyTorch"),
    "sparse": ("search", "time search with a pruned model, sparse products against dense"),
    "hybrid": ("hybrid", "time a hybrid model's training step against the word model's"),
    "kernels": ("kernels", "time each kernel against PyTorch and the machine's limit"),
    "naive": ("naive", "time textbook code, then one structural idea after another"),
    "peers": ("kernels", "time an LSTM layer against nn.LSTM, JAX and CS231n's"),
    "scaling": ("kernels", "measure how time grows with length, width, vocabulary and batch"),
    "attention": ("attention", "time attention by the length of the source"),
    "ranks": ("ranks", "time data-parallel updates by ranks and threads, model the time"),
    "crossover": ("kernels", "find the batch and width from which the GPU is faster"),
    "gradcheck": ("gradcheck", "time our gradient check against torch.autograd.gradcheck"),
    "checkers": ("gradcheck", "run gradient checkers on right and wrong functions"),
    "two-trees": ("two_trees", "time the same work in two trees of this code, in turns"),
    "gpu": ("gpu", "run all GPU tests and timings, in at most nine minutes"),
    "redraw": ("table", "draw the pictures of result files again, as PNG, SVG or PDF"),
    "table": ("table", "rewrite the figures of docs/speed.md and speed-tables.md"),
}
MODULES = {name: module for name, (module, _) in ABOUT.items()}
