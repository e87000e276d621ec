"""Turns the spans that a pipeline finds into series of numbers."""
