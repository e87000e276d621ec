"""Runs work in a thread with a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from frazil.errors import QueryTimeout

T = TypeVar("T")

_STOPPING_SECONDS = 2.0
"""We wait this long for work to stop. DuckDB cannot be stopped while it parses or plans."""


def run_within(seconds: float, work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Returns or raises what `work` does. Calls `stop` when it takes too long, or on Ctrl-C."""
    outcome: Future[T] = Future()
    thread = threading.Thread(target=_settle, args=(outcome, work), name="frazil-sql", daemon=True)
    thread.start()
    try:
        return outcome.result(seconds)
    except TimeoutError:
        if outcome.done():
            return outcome.result()
        raise took_too_long(seconds) from None
    finally:
        if thread.is_alive():
            stop()
            thread.join(_STOPPING_SECONDS)


def took_too_long(seconds: float) -> QueryTimeout:
    return QueryTimeout(
        f"The query took longer than {seconds:g} seconds (sql.timeout_seconds). Ask for less, e.g. with a WHERE on a "
        f"column that the table is sorted by."
    )


def _settle(outcome: Future[T], work: Callable[[], T]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is wanted
        outcome.set_exception(error)
