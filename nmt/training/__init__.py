"""Training: a loop, and what it calls.

| file | content |
|---|---|
| `trainer` | the loop: batch, loss, backward, clip, update, log, validate, save |
| `batch_source`, `sources`, `tasks` | the batches of updates, of one task or several |
| `passes`, `world`, `transport` | sums over an update's batches, and over several processes |
| `optimizers`, `schedule`, `warmup` | the rules that move parameters, and learning rates |
| `state`, `meter`, `resuming` | the state of training, and how a resume restores it |
| `run`, `checkpoint`, `kept`, `directory_lock` | the files of a run |
| `reports`, `log`, `progress` | reports during training |
"""
