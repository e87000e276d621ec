"""Puts parts below each other: the series of several become one list, in which labels may repeat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frazil.query.promql.series.labels import concatenate
from frazil.query.promql.storage.sample_parts import SamplePart


def stacked(parts: Sequence[SamplePart]) -> SamplePart | None:
    """Returns one part with the series of all; None if there are none."""
    filled = [part for part in parts if part.labels.size]
    if len(filled) < 2:
        return filled[0] if filled else None
    lengths = [part.offsets[-1] for part in filled]
    shifts = np.concatenate([[0], np.cumsum(lengths)])
    offsets = [part.offsets[:-1] + shift for part, shift in zip(filled, shifts[:-1], strict=True)]
    starts = None
    if any(part.starts is not None for part in filled):
        starts = np.concatenate([np.zeros(len(p.times), np.int64) if p.starts is None else p.starts for p in filled])
    return SamplePart(
        concatenate([part.labels for part in filled]),
        np.concatenate([part.kinds for part in filled]),
        np.append(np.concatenate(offsets), shifts[-1]).astype(np.int64),
        np.concatenate([part.times for part in filled]),
        np.concatenate([part.places for part in filled]),
        np.concatenate([part.values for part in filled]),
        starts,
    )
