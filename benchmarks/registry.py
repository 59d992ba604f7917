"""The benchmarks by name: for each its module, and a line on what it does."""

from __future__ import annotations

ABOUT = {
    "step": ("step", "a training step of a 2x512 translator against eager PyTorch"),
    "variants": ("step", "the same with every variant of attention, RNNsearch, a Transformer"),
    "recipes": ("recipes", "target tokens/s of the recipes, with the time split by part"),
    "recipes-large": ("recipes", "the same at the thesis's size: minutes"),
    "memory": ("memory", "peak memory of a training step, beside what it cannot do without"),
    "search": ("search", "greedy and beam search against batched PyTorch"),
    "sparse": ("search", "search with a pruned model: sparse products against dense ones"),
    "hybrid": ("hybrid", "a training step of a hybrid model against the word model's"),
    "kernels": ("kernels", "each kernel against PyTorch, and against the machine's limit"),
    "naive": ("naive", "textbook code, then the structural ideas added one by one"),
    "peers": ("kernels", "an LSTM layer against nn.LSTM, JAX and CS231n's"),
    "scaling": ("kernels", "time against length, width, vocabulary and batch, with exponents"),
    "attention": ("attention", "attention's time against the source's length"),
    "ranks": ("ranks", "data-parallel updates against ranks x threads, a model of their time"),
    "crossover": ("kernels", "batch x width: where the GPU overtakes the CPU"),
    "gradcheck": ("gradcheck", "our gradient check against torch.autograd.gradcheck"),
    "checkers": ("gradcheck", "gradient checkers on right and wrong functions"),
    "two-trees": ("two_trees", "the same work by two trees of this code, in turns"),
    "gpu": ("gpu", "all that a GPU is tested and timed by, in at most nine minutes"),
    "redraw": ("table", "draws the pictures of result files again, as PNG, SVG or PDF"),
    "table": ("table", "rewrites the figures of docs/speed.md and speed-tables.md"),
}
MODULES = {name: module for name, (module, _) in ABOUT.items()}
