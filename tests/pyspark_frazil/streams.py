"""Starts streaming queries in tests, on machines that are busy with other tests."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

TRIES = 5


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Returns a query whose source has its process.

    Spark always waits ten seconds for that, and the query fails when the machine is too busy. Nothing has been read
    then, so it is started again.
    """
    for _ in range(TRIES):
        query = start()
        while query.isActive and str(query.status["message"]).startswith("Initializing"):
            time.sleep(0.05)
        failure = None if query.isActive else query.exception()
        if failure is None or "Python worker failed to connect back" not in str(failure):
            return query
    raise AssertionError(f"{TRIES} times, no process of a source started within Spark's ten seconds: {failure}")
