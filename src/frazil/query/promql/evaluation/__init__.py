"""Defines what an evaluation works with: matrices, selected samples, options, annotations."""
