"""Computes with native histograms: one value of a series that is a whole distribution."""
