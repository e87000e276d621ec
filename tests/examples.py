"""How many examples random tests try: few in `make quick`, some in `make test`, many in `make soak`."""

from __future__ import annotations

import os

_FACTOR = float(os.environ.get("FRAZIL_TEST_EXAMPLES", "1"))
"""The targets of the Makefile set it: `make quick` to 0.05, `make test` to 0.3, `make soak` to 20."""


def examples(count: int) -> int:
    """Returns how many examples a test tries now, if it tries `count` of them when nothing is set."""
    return max(1, round(count * _FACTOR))
