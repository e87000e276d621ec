"""Checks that a message can be stored, whichever door it comes from: it must be deliverable and fit the table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidMessage, MessageTooLarge

MOST_BYTES = 4 * 1024 * 1024 - 64 * 1024
"""Payload, attributes and names have at most this many bytes together, because Danube's clients take no message of 4
MiB."""
LETTER_BYTES = MOST_BYTES + 16 * 1024
"""Dead letters may be larger, because they say more than the message did."""
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Publish times are in the years 1 to 9999."""


def check_bounds(batch: pa.RecordBatch, most: int = MOST_BYTES) -> None:
    """Raises `InvalidMessage`, which says which message cannot be stored, and why."""
    if batch.get_total_buffer_size() > most:
        sizes = _sizes(batch)
        if sizes.max() > most:
            place = int(np.argmax(sizes > most))
            raise MessageTooLarge(
                f"Message {place + 1} of {len(batch)} has {sizes[place]:,} bytes, of at most {most:,}: clients "
                f"take no larger ones. Send it in parts, or store it elsewhere and send where it is."
            )
    low, high = _times(batch.column("publish_time"))
    if low < FIRST_MS or high > LAST_MS:
        wrong = low if low < FIRST_MS else high
        raise InvalidMessage(f"{wrong} milliseconds after 1970 is no publish time: years have four digits.")


def _times(column: pa.Array) -> tuple[int, int]:
    """Returns the earliest and the latest time."""
    if len(column) == 1:
        only: int = column[0].value
        return only, only
    times = column.view(pa.int64()).to_numpy()
    return int(times.min()), int(times.max())


def _sizes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Returns the size of each message."""
    attributes = batch.column("attributes")
    entries = np.concatenate([[0], np.cumsum(_lengths(attributes.keys) + _lengths(attributes.items))])
    borders = attributes.offsets.to_numpy()
    found: npt.NDArray[np.int64] = (
        _lengths(batch.column("payload"))
        + _lengths(batch.column("routing_key"))
        + _lengths(batch.column("producer_name"))
        + np.diff(entries[borders - borders[0]])
    )
    return found


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    return found
