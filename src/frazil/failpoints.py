"""Defines points where a test can kill the process, as a power cut would: at once, with nothing finished and nothing
logged."""

from __future__ import annotations

import itertools
import os
import signal
from collections import defaultdict
from collections.abc import Iterator

VARIABLE = "FRAZIL_FAILPOINT"

_passed: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))


def failpoint(name: str) -> None:
    """Kills the process here if `FRAZIL_FAILPOINT` is `name`, or `name:count` and this is the count-th call."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    count = "1" if wanted == name else wanted.removeprefix(f"{name}:")
    if count.isdecimal() and next(_passed[name]) == int(count):
        os.kill(os.getpid(), signal.SIGKILL)
