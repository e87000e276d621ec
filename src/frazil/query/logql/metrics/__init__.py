"""Evaluates metric queries over series of samples."""
