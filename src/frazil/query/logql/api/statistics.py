"""Tells what a query cost in the shape of Loki's statistics. Grafana shows the summary."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson

from frazil.engine.interface import QueryStatistics

_CHUNK = (
    "headChunkBytes",
    "headChunkLines",
    "decompressedBytes",
    "decompressedLines",
    "compressedBytes",
    "totalDuplicates",
    "postFilterLines",
    "headChunkStructuredMetadataBytes",
    "decompressedStructuredMetadataBytes",
)
_STORE = (
    "totalChunksRef",
    "totalChunksDownloaded",
    "chunksDownloadTime",
    "chunkRefsFetchTime",
    "congestionControlLatency",
    "pipelineWrapperFilteredLines",
)
_CACHES = (
    "chunk",
    "index",
    "result",
    "statsResult",
    "volumeResult",
    "seriesResult",
    "labelResult",
    "instantMetricResult",
)
_CACHE = (
    "entriesFound",
    "entriesRequested",
    "entriesStored",
    "bytesReceived",
    "bytesSent",
    "requests",
    "downloadTime",
    "queryLengthServed",
)
_INDEX = (
    "totalChunks",
    "postFilterChunks",
    "shardsDuration",
    "usedBloomFilters",
    "totalStreams",
    "chunkRefsLookupTime",
    "bloomFilterTime",
)


def loki_statistics(cost: QueryStatistics, seconds: float, returned: int) -> bytes:
    """Returns them as JSON. `seconds` is how long it took, `returned` the number of lines or series of the answer."""
    per_second = 1 / max(seconds, 1e-9)
    summary: dict[str, Any] = {
        "bytesProcessedPerSecond": int(cost.bytes_read * per_second),
        "linesProcessedPerSecond": int(cost.rows_read * per_second),
        "totalBytesProcessed": cost.bytes_read,
        "totalLinesProcessed": cost.rows_read,
        "execTime": round(seconds, 6),
        "queueTime": round(cost.queue_seconds, 6),
        "subqueries": 0,
        "totalEntriesReturned": returned,
        "splits": 0,
        "shards": 0,
        "totalPostFilterLines": cost.rows_read,
        "totalStructuredMetadataBytesProcessed": 0,
    }
    store = _store({"decompressedBytes": cost.bytes_read, "decompressedLines": cost.rows_read})
    ingester = {
        "totalReached": 0,
        "totalChunksMatched": 0,
        "totalBatches": 0,
        "totalLinesSent": 0,
        "store": _store({}),
    }
    found = {"entriesFound": cost.cache_hits, "entriesRequested": cost.cache_hits + cost.cache_misses}
    return orjson.dumps(
        {
            "summary": summary,
            "querier": {"store": store, "querierExecTime": round(seconds, 6)},
            "ingester": ingester,
            "cache": _zeros(_CACHES, _CACHE) | {"chunk": dict.fromkeys(_CACHE, 0) | found},
            "index": dict.fromkeys(_INDEX, 0) | {"usedBloomFilters": False},
        }
    )


def _store(chunk: dict[str, int]) -> dict[str, Any]:
    return {
        **dict.fromkeys(_STORE, 0),
        "queryReferencedStructuredMetadata": False,
        "queryUsedV2Engine": False,
        "chunk": dict.fromkeys(_CHUNK, 0) | chunk,
    }


@cache
def _zeros(names: tuple[str, ...], fields: tuple[str, ...]) -> dict[str, dict[str, int]]:
    return {name: dict.fromkeys(fields, 0) for name in names}
