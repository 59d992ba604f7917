"""Trained translators in the files of other engines: a module for each format."""
