"""The columns that Frazil adds to rows, and the names that no column may have, as the log has them."""

from __future__ import annotations

from frazil.log.schema.columns import NANOSECONDS, OFFSET, PARTITION, RESERVED

__all__ = ["NANOSECONDS", "OFFSET", "PARTITION", "RESERVED"]
