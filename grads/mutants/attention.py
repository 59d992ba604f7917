"""The mistakes of `grads.mutants` in the kernels of `attention`."""

from __future__ import annotations

from grads.mutants.kernels import Mutant

ATTEND = "attention.attend.attend_backward"
SOFTMAX = "attention.attention.softmax_backward"
TANH_SCORE = "attention.scores.tanh_score_backward"
LOOK = "attention.look.look_backward"
PULL_LOCAL = "attention.look._pull_local"
PULL_THROUGH = "attention.look._pull_through"
LOOK_MEMORY = "attention.look.look_memory_backward"
POSITION = "attention.local.position_backward"
NEARNESS = "attention.local.nearness_backward"

ATTENTION = (
    Mutant("softmax Jacobian's second term", SOFTMAX,
           "da -= (a * da).sum(axis=-1, keepdims=True)", "pass", "attend",
           "diag(a) da without a a^T da"),
    Mutant("softmax Jacobian as of a sigmoid", SOFTMAX,
           "da -= (a * da).sum(axis=-1, keepdims=True)", "da *= 1.0 - a", "softmax",
           "a (1 - a) da: the other words' scores left out"),
    Mutant("softmax Jacobian without a", SOFTMAX, "da *= a", "pass", "attend",
           "da - a^T da, not multiplied by the weights"),
    Mutant("dh by the weights", ATTEND, "xp.matmul(de, memory.keys)", "xp.matmul(a, memory.keys)",
           "attend", "a for de: the forward line copied"),
    Mutant("keys by the weights", "attention.attend.attend_memory_backward",
           "de.transpose(0, 2, 1)", "a.transpose(0, 2, 1)", "attend",
           "a for de: the line above copied"),
    Mutant("values by the scores", "attention.attend.attend_memory_backward",
           "a.transpose(0, 2, 1)", "de.transpose(0, 2, 1)", "attend", "de for a"),
    Mutant("attentional without tanh'", "attention.attend.tanh_slope",
           "xp.subtract(1.0, dz, out=dz)", "dz[...] = 1.0", "attentional",
           "h~ taken for a linear layer"),
    Mutant("tanh' for the weights only", "attention.attend.attentional_backward",
           "matmul(dz, W_c), dz", "matmul(dh_tilde, W_c), dz", "attentional",
           "upstream used where the gradient at the pre-activation belongs"),
    Mutant("memory without its keys", "attention.attend.memory_backward",
           "dhbar + map_backward(dkeys, W)", "dhbar", "translator, general",
           "hbar is read twice: by the context and by the score"),
    Mutant("memory without its contexts", "attention.attend.memory_backward",
           "dhbar + map_backward(dkeys, W)", "map_backward(dkeys, W)", "memory, dot",
           "= instead of += for dhbar"),
    Mutant("W_a transposed", "attention.scores.map_backward", "(dy.reshape(B * n, m), W)",
           "(dy.reshape(B * n, m), W.T)", "translator, general",
           "square if He = H, so no shape complains"),
    Mutant("dW_a transposed", "attention.scores.map_weight",
           "dy.reshape(rows, W.shape[0]).T, x.reshape(rows, W.shape[1])",
           "x.reshape(rows, W.shape[1]).T, dy.reshape(rows, W.shape[0])",
           "translator, general, feeding", "hbar_s dk_s' for dk_s hbar_s'"),
    Mutant("dW of concat's halves exchanged", "attention.scores.map_gradients",
           "[d_query, d.keys]", "[d.keys, d_query]", "translator, concat, global, 1 layers",
           "[hbar_s; h_t] for [h_t; hbar_s]; no shape complains if He = H"),
    Mutant("rows of a location from the end", "attention.scores.map_gradients",
           "dW_a[: len(d_query)]", "dW_a[-len(d_query) :]", "look, location, global, length 7",
           "the part that is used taken for the last"),
)  # fmt: skip

SCORES = (
    Mutant("tanh score without v", TANH_SCORE, "dq *= v", "pass",
           "tanh score, keys for each", "v_a left out of the way back to the query"),
    Mutant("tanh score without tanh'", TANH_SCORE,
           "xp.subtract(1.0, xp.multiply(u, u, out=u), out=u)", "u[...] = 1.0",
           "tanh score, keys for all", "the hidden layer taken for a linear one"),
    Mutant("query beside one key", TANH_SCORE, "xp.matmul(d[:, :, None], u)[:, :, 0]",
           "d[:, :, :1] * u[:, :, 0]",
           "tanh score, keys for each", "the broadcast of q_t is not summed over"),
    Mutant("v by the pre-activation's gradient", TANH_SCORE, "d.reshape(1, -1)",
           "(1.0 - d).reshape(1, -1)", "tanh score, keys for all", "1 - for the wrong factor"),
    Mutant("keys of the last step", TANH_SCORE, "dkeys[b] += ", "dkeys[b] = ",
           "translator, additive, global, feeding, 1 layers",
           "= instead of += over the steps"),
    Mutant("keys of the first query", TANH_SCORE, "_over_states(d, u)",
           "d[:, 0, :, None] * u[:, 0]",
           "look, additive, global", "the broadcast of k_s is not summed over"),
    Mutant("query's map forgotten", LOOK, "map_backward(dq, maps.query)", "dq",
           "translator, concat, global, 1 layers", "dq_t handed on as dh_t; square, so it fits"),
)  # fmt: skip

LOCAL = (
    Mutant("position's slope of the sigmoid", POSITION, "ratio * (1.0 - ratio) * dp", "ratio * dp",
           "position", "sigm for sigm'"),
    Mutant("position without S", POSITION, "lengths[:, None] * ratio", "ratio", "position",
           "the factor in front of the sigmoid left out"),
    Mutant("position's tanh by the query", "attention.local.position_weights",
           "du.reshape(-1, P)", "u.reshape(-1, P)", "position", "u for du: dW_p of the forward"),
    Mutant("sigma is D", NEARNESS, "(4.0 / D**2)", "(1.0 / D**2)", "nearness",
           "1 / D^2 for 1 / sigma^2, sigma = D / 2"),
    Mutant("align not weighed", NEARNESS, "da * near.gauss", "da * 1.0", "nearness",
           "the Gaussian's factor left out of the way to the scores"),
    Mutant("renormalisation taken for a constant", NEARNESS,
           "(da - (a * da).sum(axis=2, keepdims=True))", "da", "nearness, renormalised",
           "the sum depends on what it divides"),
    Mutant("centre of a reversed source", PULL_LOCAL, "-d_centre if way.reverse else d_centre",
           "d_centre", "look, general, local-p, D 1, reverse", "erratum 9 undone forward only"),
    Mutant("local-p without its position", PULL_LOCAL, "dh + dh_query", "dh_query",
           "look, dot, local-p, D 1", "h_t scores, and places; one branch left out"),
    Mutant("softmax of the weighed", PULL_THROUGH, "align = seen.near.align", "pass",
           "look, general, local-p, D 1", "a_t, which the Gaussian weighs, for its softmax"),
    Mutant("windows that overwrite each other", "attention.local.scatter_window",
           "flat[of_q] += ", "flat[of_q] = ", "look, general, local-m, D 1",
           "= instead of += where windows of several steps meet"),
    Mutant("window without its scores", LOOK_MEMORY,
           "read.append((de, _joined([s.q for s in seen])))", "pass", "look, general, local-m, D 1",
           "hbar is read twice: by the context and by the score"),
    Mutant("position's weights of one step", LOOK_MEMORY,
           "_joined([p.du for p in pulled])", "0.0 * _joined([p.du for p in pulled])",
           "translator, dot, local-p, feeding, 1 layers", "W_p left at its start"),
)  # fmt: skip

ATTENTIONS = (*ATTENTION, *SCORES, *LOCAL)
