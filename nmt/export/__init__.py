"""Export of a trained translator to the files of other engines, with a module for each format."""
