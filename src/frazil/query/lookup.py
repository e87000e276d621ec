"""Exports `ColdLookup`, which finds rows in segments and table, for programs that have their own hot buffer."""

from __future__ import annotations

from frazil.scan.lookup.cold_lookup import ColdLookup

__all__ = ["ColdLookup"]
