"""Training: a loop, and what it calls.

| file | what it is |
|---|---|
| `trainer` | the loop: batch, loss, backward, clip, update, log, validate, save |
| `batch_source`, `sources`, `tasks` | batches: one or several an update, of one or several tasks |
| `passes`, `world`, `transport` | what an update's passes sum to; the sum over several processes |
| `optimizers`, `schedule`, `warmup` | the rule that moves parameters, and its learning rate |
| `state`, `meter`, `resuming` | where training stands, and how a resume puts it back |
| `run`, `checkpoint`, `kept`, `directory_lock` | the files of a run |
| `reports`, `log`, `progress` | what is told meanwhile |
"""
