"""Messages that come again and again, remembered as the rows that they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

MOST = 4096
"""Remembered at most."""
LONGEST = 4096
"""Bytes of a message that is worth remembering."""


class Known:
    """Thread-safe."""

    def __init__(self, convert: Callable[[pa.Array], pa.StructArray]) -> None:
        """`convert` makes a row of each message."""
        self._convert = convert
        self._rows: dict[bytes | None, pa.StructArray] = {}

    def rows(self, messages: Sequence[bytes | None]) -> pa.StructArray:
        """One for each; a message that is not there is None."""
        if not 0 < len(messages) <= MOST or max(len(each or b"") for each in messages) > LONGEST:
            return self._convert(pa.array(messages, pa.binary()))
        # Another thread may forget them all meanwhile.
        rows = {message: self._rows.get(message) for message in messages}
        missing = [message for message, row in rows.items() if row is None]
        if missing:
            rows |= self._learn(missing)
        return pa.concat_arrays([rows[message] for message in messages])

    def _learn(self, messages: list[bytes | None]) -> dict[bytes | None, pa.StructArray]:
        converted = self._convert(pa.array(messages, pa.binary()))
        # Copies, each with nothing but its own.
        learnt = {message: converted.take(pa.array([place])) for place, message in enumerate(messages)}
        if len(self._rows) + len(learnt) > MOST:
            self._rows = {}
        self._rows.update(learnt)
        return learnt
