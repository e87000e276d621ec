"""Which messages are past their limit: those at the front of their partition, once all who need them have them.

Subscriptions are waited for up to a limit of their own, derived tables for as long as it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import TOPIC, TableState, named
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.retention.cuts import Cuts, Past, Piece, Reaches, highest, lowest, past, pieces_of
from frazil.maintain.retention.holds import Hold, hold_on
from frazil.maintain.retention.limits import Limits
from frazil.maintain.retention.plan import Plan, time_range
from frazil.maintain.retention.subscribers import subscribers_hold
from frazil.maintain.workshop import Workshop
from frazil.topics.names import parse_name


def plan_by_offset(
    shop: Workshop, table: Table, files: list[DataFile], limits: Limits, known: Reaches | None = None
) -> Plan:
    """`known` is what was read of the files before, and is added to."""
    if not _concerns(files, limits):
        return Plan()
    ends = TableState.of(table).offsets
    with calling(f"Reading offsets of table {named(table)}"):
        pieces = pieces_of(table, files, limits.field, {} if known is None else known)
        found = past(table, pieces, limits.bounds, ends)
    if not _going(pieces, found, found.cuts):
        return Plan()
    readers = hold_on(shop, table)
    assert readers is not None, "the table is a base table"
    name = parse_name(table.metadata.properties[TOPIC], shop.config.lake.namespace)
    subscribers = subscribers_hold(shop.store, name, ends)
    waited_for = [piece for piece in pieces if not piece.is_below(subscribers.below)]
    with calling(f"Reading offsets of table {named(table)}"):
        unwaited = past(table, waited_for, limits.waiting, ends).cuts if subscribers.behind else {}
    cuts = lowest(found.cuts, lowest(readers.below, highest(subscribers.below, unwaited)))
    going = _going(pieces, found, cuts)
    return Plan(
        whole=[piece.file for piece in going if piece.is_below(cuts)],
        mixed=[piece.file for piece in going if not piece.is_below(cuts)],
        where=_sql(cuts),
        held=len(_going(pieces, found, found.cuts)) - len(going),
        waits=_waits(readers, subscribers),
    )


def _concerns(files: list[DataFile], limits: Limits) -> bool:
    """Whether anything may be past the limits: asked before anything is read."""
    age, size = limits.bounds.age, limits.bounds.size
    if size is not None and sum(file.file_size_in_bytes for file in files) > size:
        return True
    if age is None:
        return False
    oldest = (time_range(file, age.field)[0] for file in files)
    return any(each is not None and each < age.number(age.moment) for each in oldest)


def _going(pieces: Sequence[Piece], found: Past, cuts: Cuts) -> list[Piece]:
    """Those that go as a whole, and those that are written again without what is below the cuts."""
    mixed = {piece.file.file_path for piece in found.overdue if piece.begins_below(cuts)}
    return [piece for piece in pieces if piece.is_below(cuts) or piece.file.file_path in mixed]


def _sql(cuts: Mapping[int, int]) -> str:
    return " OR ".join(
        f"({PARTITION} = {partition} AND {OFFSET} < {offset})" for partition, offset in sorted(cuts.items()) if offset
    )


def _waits(readers: Hold, subscribers: Hold) -> str:
    parts = []
    if readers.behind:
        parts.append(f"{readers.reason}. Mend what keeps it behind; a derived table that nobody needs can be dropped")
    if subscribers.behind:
        parts.append(
            f"{subscribers.reason}. Let it catch up, delete it if nobody needs it, or set "
            f"subscription_retention_days or subscription_retention_gb to wait no longer than that"
        )
    return "; and by ".join(parts)
