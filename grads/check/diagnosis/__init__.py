"""Diagnosis: what kind of mistake a wrong gradient looks like."""
