"""Mutation testing: the syntax tree of every backward pass is changed, one place at a time, and the
gradient checks must notice.

`syntax` and `operators` define the changes, `record` finds the functions and the checks that run
them, `injection` replaces a function by a mutant, `execution` runs the checks on each mutant,
`report` writes docs/mutants.md. Only `equivalents` lists functions of the product: the changes that
are no mistakes, each with its reason.
"""
