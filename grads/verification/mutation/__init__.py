"""Mutation testing: every backward pass is changed, one place of its syntax tree at a time, and the
gradient checks must notice each change.

`syntax` and `operators` define the changes, `record` finds the functions and the checks that run
them, `injection` replaces a function by a mutant, `execution` runs the checks on each mutant,
`report` writes docs/mutants.md. Only `equivalents` names functions of the product. It lists the
changes that are no mistakes, each with its reason.
"""
