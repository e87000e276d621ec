"""Finds the tables that maintenance is for: tables in Frazil's namespaces whose properties name a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import CatalogConnection, CatalogRefused, ConfigError, FrazilError, IcebergError, TableNotFound
from frazil.lake.catalog.lake import Identifier, Lake, calling, dotted
from frazil.lake.commit.offsets import ROLE, TOPIC
from frazil.lake.tables.creation import is_temporary
from frazil.lake.tables.tables import CURRENT_VERSION, VERSION, base_identifier


@dataclass(frozen=True)
class MaintainedTable:
    identifier: Identifier
    topic: str
    role: str
    problem: FrazilError | None = None
    """The error if the table cannot be loaded."""

    @property
    def name(self) -> str:
        return dotted(self.identifier)


def find_maintained_tables(
    lake: Lake, config: Config, names: Sequence[str] = (), topics: Iterable[str] = ()
) -> list[MaintainedTable]:
    """Returns all tables, or those that `names` mean.

    A name is a topic, which means all its tables, or a table with or without namespace. `topics` are all topics,
    because some have tables in other namespaces.
    """
    namespaces = _namespaces(config, topics)
    found = [target for namespace in namespaces for target in _tables_in(lake, namespace)]
    if not names:
        return found
    chosen: list[MaintainedTable] = []
    for name in names:
        meant = [each for each in found if name in {each.topic, each.name, each.identifier[-1]}]
        if not meant:
            known = ", ".join(sorted(each.name for each in found)) or "none"
            raise ConfigError(
                f"{name!r} is neither a topic with a table nor a table of Frazil's. There are: {known}."
            )
        chosen += (each for each in meant if each not in chosen)
    return chosen


def version_of(table: Table) -> int:
    text = table.metadata.properties.get(VERSION, "1")
    try:
        return int(text)
    except ValueError:
        raise IcebergError(
            f"table {dotted(table.name())}: property {VERSION} = {text!r} is not a version; it is a whole number"
        ) from None


def check_version(table: Table, newest: int = int(CURRENT_VERSION)) -> None:
    """Raises if a newer Frazil created the table, whose columns and properties are not known here."""
    version = version_of(table)
    if version > newest:
        raise IcebergError(
            f"table {dotted(table.name())} has version {version}, and this Frazil knows versions up to {newest}: "
            "use the Frazil that made it, or a newer one"
        )


def _namespaces(config: Config, topics: Iterable[str]) -> list[Identifier]:
    theirs = (base_identifier(config, topic)[:-1] for topic in (*config.topics, *topics))
    return list(dict.fromkeys((tuple(config.lake.namespace.split(".")), *theirs)))


def _tables_in(lake: Lake, namespace: Identifier) -> list[MaintainedTable]:
    catalog = lake.catalog
    try:
        with calling(f"Listing the tables of {dotted(namespace)}"):
            listed = sorted(tuple(each) for each in catalog.list_tables(namespace))
    except TableNotFound:
        return []
    targets = (_maintained_table(lake, each) for each in listed if not is_temporary(each))
    return [target for target in targets if target is not None]


def _maintained_table(lake: Lake, identifier: Identifier) -> MaintainedTable | None:
    """Loads a table. Returns None if it is not Frazil's, or was dropped meanwhile."""
    try:
        properties = lake.load(identifier).metadata.properties
    except TableNotFound:
        return None
    except (CatalogConnection, CatalogRefused):
        raise
    except FrazilError as error:
        return MaintainedTable(identifier, "", "", error)
    if TOPIC not in properties:
        return None
    return MaintainedTable(identifier, properties[TOPIC], properties.get(ROLE, "base"))
