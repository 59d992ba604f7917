"""Diagnosis: which kind of mistake made a gradient wrong?"""
