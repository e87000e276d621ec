"""Opens the spans that a request may see, and tells what reading them cost."""

from __future__ import annotations

from typing import Any

from frazil.engine.interface import QueryContext, QueryRequest
from frazil.query.traceql.engine.scanned_spans import ScannedSpans


def spans_of(request: QueryRequest, context: QueryContext) -> ScannedSpans:
    return ScannedSpans(context.scanner, request.tenants, context)


def search_metrics(source: ScannedSpans) -> dict[str, Any]:
    """Returns what was read, as the answers of searches and metrics tell it."""
    inspected = sum(scan.statistics.bytes_read for scan in source.scans)
    found: dict[str, Any] = {"inspectedBytes": str(inspected)} if inspected else {}
    return found | {"completedJobs": 1, "totalJobs": 1}
