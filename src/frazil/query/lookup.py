"""`ColdLookup`: single rows from segments and table, for programs that hold a hot buffer of their own."""

from __future__ import annotations

from frazil.scan.lookup.cold_lookup import ColdLookup

__all__ = ["ColdLookup"]
