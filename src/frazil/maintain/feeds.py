"""The base tables that a log feeds: all of them, also those of other settings, keep what they need in it.

Each table that was made left a marker beside the log. One that is not in this catalog may be in another, and may need
the log yet; only a person can say that it does not.
"""

from __future__ import annotations

from pyiceberg.table import Table

from frazil.errors import ConfigError, ObjectExists
from frazil.lake.catalog import Identifier, dotted
from frazil.lake.markers import markers
from frazil.lake.standing import Check, Standing, check_table
from frazil.log import layout
from frazil.log.store import ObjectStore
from frazil.maintain.report import NotOurs
from frazil.maintain.workshop import Workshop


def other_base_tables(shop: Workshop, topic: str, own: Identifier) -> list[Table]:
    """The base tables of the topic but for `own`. `NotOurs` when one is missing and nobody has let go of it."""
    found = []
    for identifier in _marked(shop.store, topic):
        if identifier == own:
            continue
        check = check_table(shop.lake, shop.store, topic, identifier)
        if check.standing is Standing.FINE and check.table is not None:
            found.append(check.table)
        elif not _is_released(shop.store, topic, check):
            raise NotOurs(
                f"the log of {topic!r} is kept: its base table {dotted(identifier)} is not in this catalog, or another "
                f"has its name. If it is gone for good: `frazil maintain trim {topic} --release {dotted(identifier)}`"
            )
    return found


def release(shop: Workshop, topic: str, name: str) -> None:
    """Remember that the log need not be kept for a base table that is gone for good."""
    known = {dotted(identifier): identifier for identifier in _marked(shop.store, topic)}
    if name not in known:
        tables = ", ".join(known) or "none"
        raise ConfigError(f"--release: topic {topic!r} never had a base table {name}. It had: {tables}.")
    check = check_table(shop.lake, shop.store, topic, known[name])
    if check.standing is Standing.FINE:
        raise ConfigError(f"--release: {name} is there, and says itself what it needs of the log. Drop it first.")
    try:
        shop.store.put_new(_key(topic, check), b"")
    except ObjectExists:
        return


def _marked(store: ObjectStore, topic: str) -> list[Identifier]:
    return list(dict.fromkeys(each.identifier for each in markers(store, topic) if each.role == "base"))


def _is_released(store: ObjectStore, topic: str, check: Check) -> bool:
    key = _key(topic, check)
    return any(info.key == key for info in store.list(key))


def _key(topic: str, check: Check) -> str:
    # By its id: another table of the same name would be needed again.
    return f"{layout.topic_prefix(topic)}released/{check.history[-1].uuid}"
