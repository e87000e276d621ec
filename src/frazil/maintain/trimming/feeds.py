"""The base tables that a log feeds: all of them, also those of other settings, keep what they need in it.

Each table that was made left a marker beside the log. One that is not in this catalog may be in another, and may need
the log yet; only a person can say that it is done with.
"""

from __future__ import annotations

from pyiceberg.table import Table

from frazil.errors import ConfigError
from frazil.lake.catalog.lake import Identifier, dotted
from frazil.lake.tables.identity import Standing, check_table
from frazil.lake.tables.markers import forget, markers
from frazil.maintain.report import NotOurs
from frazil.maintain.workshop import Workshop
from frazil.store import ObjectStore


def other_base_tables(shop: Workshop, topic: str, own: Identifier) -> list[Table]:
    """The base tables of the topic but for `own`. `NotOurs` when one is missing that nobody has let go of."""
    found = []
    for identifier in _marked(shop.store, topic):
        if identifier == own:
            continue
        check = check_table(shop.lake, shop.store, topic, identifier)
        if check.standing is not Standing.FINE or check.table is None:
            raise NotOurs(
                f"the log of {topic!r} is kept: its base table {dotted(identifier)} is not in this catalog, or "
                f"another has its name. If it is gone for good: `frazil maintain trim {topic} --release "
                f"{dotted(identifier)}`"
            )
        found.append(check.table)
    return found


def release(shop: Workshop, topic: str, name: str) -> None:
    """Remember that a base table is gone for good, so that the log need not be kept for it."""
    known = {dotted(identifier): identifier for identifier in _marked(shop.store, topic)}
    if name not in known:
        tables = ", ".join(known) or "none"
        raise ConfigError(f"--release: the log of topic {topic!r} is not kept for {name}. It is for: {tables}.")
    check = check_table(shop.lake, shop.store, topic, known[name])
    if check.standing is Standing.FINE:
        raise ConfigError(f"--release: {name} is there, and says itself what it needs of the log. Drop it first.")
    forget(shop.store, topic, check.history[-1])


def _marked(store: ObjectStore, topic: str) -> list[Identifier]:
    """Those whose last marker stands for a table."""
    newest = {each.identifier: each for each in markers(store, topic) if each.role == "base"}
    return [identifier for identifier, marker in newest.items() if marker.uuid is not None]
