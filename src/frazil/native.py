"""Native code that fails in ways that Python does not expect.

A panic of Rust's comes as an exception that is no `Exception`: it passes every handler, and ends whoever runs the
code. It is about what the code was given, and so it is made an error like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_MEANT = (Exception, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
"""Exceptions that somebody raises on purpose."""


class NativeFault(ValueError):
    """Raised when native code panics over what it was given."""


@contextmanager
def faults_as_errors() -> Iterator[None]:
    """Raises `NativeFault` for a panic within."""
    try:
        yield
    except _MEANT:
        raise
    except BaseException as error:
        raise NativeFault(f"native code failed: {type(error).__name__}: {error}") from error
