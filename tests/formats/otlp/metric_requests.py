"""What tests beside this share."""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Metric,
)


def point_by_point(metric: Metric) -> Iterator[Metric]:
    """Yields the metric once for each of its points, with this point alone."""
    kind = metric.WhichOneof("data")
    if kind is not None:
        for point in getattr(metric, kind).data_points:
            alone = Metric()
            alone.CopyFrom(metric)
            del getattr(alone, kind).data_points[:]
            getattr(alone, kind).data_points.append(point)
            yield alone
