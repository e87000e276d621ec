"""Lists the query APIs, each with the port at which it is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.engine.interface import QueryRoute

QUERY_APIS: Mapping[str, Sequence[QueryRoute]] = {}
