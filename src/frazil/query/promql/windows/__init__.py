"""Computes functions over windows of samples, for many series and steps at once."""
