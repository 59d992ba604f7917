"""Neural machine translation: corpora, models, training, search, evaluation, the command line."""
