"""How many examples random tests try: few in `make test`, many in `make soak`."""

from __future__ import annotations

import os

FACTOR = int(os.environ.get("FRAZIL_TEST_EXAMPLES", "1"))
"""`make soak` sets it: each random test tries so many times as many examples."""


def examples(count: int) -> int:
    """Returns how many examples a test tries that tries `count` of them in `make test`."""
    return count * FACTOR
