# %% [markdown]
# # The log of a training run, with pandas
#
# `nmt train` appends a line to `log.jsonl` in the run directory at every event: a JSON object,
# whose keys are in `docs/log.schema.json`. pandas reads the file in one line. This notebook draws
# loss, BLEU and speed from it. It needs pandas and matplotlib, the project's extras `log` and
# `plot`.

# %%
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas
from drawing import BLUE, ORANGE

import nmt
from nmt.recipe.file import packaged_recipe

RUN = Path("runs/log-example")  # or the directory of a run of yours

# %% [markdown]
# Where there is no such run yet, this trains a small translator on phrases that come with the
# project. It takes about half a minute.

# %%
SMALL = {"data.train_size": 2000, "data.dev_size": 100, "data.test_size": 0,
         "model.hidden_size": 64, "model.embedding_size": 64,
         "train.epochs": 8, "train.batch_size": 16, "train.log_every": 10}
if not RUN.exists():
    nmt.train(packaged_recipe("demo.yaml", [f"--{key}={value}" for key, value in SMALL.items()]),
              RUN)

# %% [markdown]
# ## One line
#
# Each row is an event, each key a column. A key that an event does not have is `NaN` in its row.

# %%
log = pandas.read_json(RUN / "log.jsonl", lines=True)
print(log.event.value_counts().to_string())

# %% [markdown]
# An `update` row has the means over the updates since the one before. An `epoch` row has the mean
# over the epoch, and in `scores` those of the validation set.

# %%
updates, epochs = (log[log.event == name].set_index("step") for name in ("update", "epoch"))
scores = pandas.DataFrame(epochs.scores.tolist(), index=epochs.index)
print(scores.round(2).to_string())

# %% [markdown]
# ## Loss and BLEU
#
# The loss is in nats per target token. That of the validation set is the logarithm of its
# perplexity. While the training loss falls and the other rises, the model learns its training set
# by heart. BLEU lags behind the loss: it is near zero until whole phrases are right.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
updates.loss.plot(ax=left, color=BLUE, alpha=0.5, label="training")
scores.perplexity.map(math.log).plot(ax=left, color=ORANGE, marker="o", label="validation")
left.set(title="Loss", xlabel="updates", ylabel="nats per target token")
left.legend()
scores.bleu.plot(ax=right, color=ORANGE, marker="o")
right.set(title="BLEU of the validation set", xlabel="updates", ylabel="BLEU", ylim=(0, None))

# %% [markdown]
# ## What else a row has
#
# The norm of the gradient before clipping, and the speed. A norm that jumps warns of a learning
# rate that is too high before the loss does.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
updates.gradient_norm.plot(ax=left, color=BLUE)
left.set(title="Norm of the gradient", xlabel="updates", ylabel="norm", yscale="log")
updates.target_tokens_per_second.plot(ax=right, color=BLUE)
right.set(title="Speed", xlabel="updates", ylabel="target tokens per second", ylim=(0, None))

# %% [markdown]
# ## Several runs
#
# Two logs in one table, with the name of the run as a column, are all that a comparison needs:
#
# ```python
# runs = pandas.concat(pandas.read_json(run / "log.jsonl", lines=True).assign(run=run.name)
#                      for run in Path("runs").iterdir())
# runs[runs.event == "update"].pivot_table(index="step", columns="run", values="loss").plot()
# ```
