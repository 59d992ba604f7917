"""Mutation testing: the syntax tree of every backward pass is changed, one place at a time, and the
gradient checks must notice.

`syntax` and `operators` say which changes there are, `record` finds the functions and what runs
them, `injection` puts a mutant in a function's place, `execution` runs the checks on each mutant,
`report` writes docs/mutants.md. Nothing here lists a function of the product but `equivalents`: the
changes that are no mistakes, each with its reason.
"""
