"""Prints histograms as `count_values` names them."""

from __future__ import annotations

import numpy as np

from frazil.query.promql.histograms.histogram import Histogram
from frazil.query.promql.parse.tree import print_shortest


def print_histogram(histogram: Histogram) -> str:
    """Prints count, sum and the populated buckets from the lowest up."""
    buckets = histogram.bucket_list(0.0)
    parts = [f"count:{print_shortest(histogram.count)}", f"sum:{print_shortest(histogram.sum)}"]
    for at in np.flatnonzero(buckets.counts != 0):
        low, high = print_shortest(float(buckets.lower[at])), print_shortest(float(buckets.upper[at]))
        side = int(buckets.side[at])
        opening = "[" if side <= 0 or low == "-Inf" else "("
        closing = "]" if side >= 0 or high == "+Inf" else ")"
        parts.append(f"{opening}{low},{high}{closing}:{print_shortest(float(buckets.counts[at]))}")
    return "{" + ", ".join(parts) + "}"
