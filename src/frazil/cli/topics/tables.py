"""Describes the tables of a topic as the catalog has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.cli.terminal.output import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.config.model import Config
    from frazil.lake.catalog.lake import Identifier, Lake
    from frazil.store import ObjectStore


def describe_tables(
    config: Config, store: ObjectStore, topic: str, sealed: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Returns the base table, the dead-letter table if there ever was one, and the derived tables of the settings.

    `sealed` maps each partition to the offset where its sealed log ends.
    """
    from frazil.lake.catalog.lake import Lake
    from frazil.lake.tables.table_history import newest_entry
    from frazil.lake.tables.tables import base_identifier, dead_letter_identifier, derived_identifier

    lake = Lake(config)
    letters = dead_letter_identifier(config, topic)
    tables = [_table(lake, base_identifier(config, topic), "base", sealed)]
    letter_table = _table(lake, letters, "dead-letter", sealed)
    if "location" in letter_table or newest_entry(store, topic, letters) is not None:
        tables.append(letter_table)
    derived = sorted(config.topic(topic).derived)
    return tables + [_table(lake, derived_identifier(config, topic, name), "derived", sealed) for name in derived]


def _table(lake: Lake, identifier: Identifier, role: str, sealed: Mapping[int, int]) -> dict[str, Any]:
    from frazil.errors import FrazilError
    from frazil.lake.catalog.lake import dotted
    from frazil.lake.commit.offsets import TableState, summary_of
    from frazil.lake.tables.tables import find_table

    description: dict[str, Any] = {"name": dotted(identifier), "role": role}
    try:
        table = find_table(lake, identifier)
        if table is None:
            return description | {"problem": "not there; `frazil topics resume` tells if that is wrong"}
        snapshot = table.current_snapshot()
        summary = summary_of(snapshot) if snapshot else {}
        offsets = dict(TableState.of(table).offsets)
        # A dead-letter table gets a commit only when there is a letter, so it is never behind.
        behind = {} if role == "dead-letter" else {"behind": _behind(offsets, sealed)}
        return description | {
            "committed_offsets": offsets,
            **behind,
            "rows": int(summary.get("total-records", 0)),
            "files": int(summary.get("total-data-files", 0)),
            "bytes": int(summary.get("total-files-size", 0)),
            "location": table.location(),
        }
    except FrazilError as error:
        return description | {"problem": str(error)}


def _behind(offsets: Mapping[int, int], sealed: Mapping[int, int]) -> int:
    return sum(max(0, end - offsets.get(partition, 0)) for partition, end in sealed.items())


def print_tables(tables: list[dict[str, Any]]) -> None:
    for table in tables:
        title = f"\n{table['role']} table {table['name']}: "
        if "problem" in table:
            print(f"{title}{table['problem']}")
            continue
        description = [
            f"{count(table['rows'], 'row')} in {count(table['files'], 'file')}",
            f"{table['bytes']:,} bytes",
        ]
        if "behind" in table:
            description.append(f"{count(table['behind'], 'sealed record')} behind the log")
        offsets = table["committed_offsets"].items()
        places = ", ".join(f"offset {offset} of partition {partition}" for partition, offset in offsets)
        print(f"{title}{', '.join(description)}\n  goes on at {places or 'the first record'}\n  {table['location']}")
