"""Verification of this repository's backward passes."""
