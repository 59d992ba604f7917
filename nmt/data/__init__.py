"""Text: corpora, vocabularies, tokenisation, batches and the embedded CLDR corpus."""
