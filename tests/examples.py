"""How many examples random tests try: few in `make quick`, some in `make test`, many in `make soak`."""

from __future__ import annotations

import os

_FACTOR = float(os.environ.get("FRAZIL_TEST_EXAMPLES", "1"))
"""`make quick` and `make soak` set it: each random test tries so many times as many examples as in `make test`."""


def examples(count: int) -> int:
    """Returns how many examples a test tries that tries `count` of them in `make test`."""
    return max(1, round(count * _FACTOR))
