"""Turns panics of native code into errors that Python code handles.

A Rust panic arrives as an exception that is not an `Exception`: it passes every handler, and ends the thread or
process. It is caused by what the code was given, so it is turned into an ordinary error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_MEANT = (Exception, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
"""Exceptions that are raised on purpose."""


class NativeFault(ValueError):
    """Raised when native code panics over what it was given."""


@contextmanager
def faults_as_errors() -> Iterator[None]:
    """Raises `NativeFault` for a panic within the block."""
    try:
        yield
    except _MEANT:
        raise
    except BaseException as error:
        raise NativeFault(f"native code failed: {type(error).__name__}: {error}") from error
