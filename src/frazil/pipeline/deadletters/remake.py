"""Dead letters become rows, if they can now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata

from frazil.formats.decoding import Decoder
from frazil.lake.evolution import lacks
from frazil.log.schema.columns import OFFSET
from frazil.pipeline.deadletters.letters import Place
from frazil.scan.decode import DecodingRules, RowDecoder


class Letter(NamedTuple):
    place: Place
    record: pa.RecordBatch
    """As the log had it."""
    marked: bool = False
    """As replayed."""


@dataclass
class Remade:
    rows: list[pa.RecordBatch] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    """Of the rows."""
    stuck: dict[Place, str] = field(default_factory=dict)
    """Those that cannot become rows, and why."""
    wanting: dict[Place, None] = field(default_factory=dict)
    """Those that the table lacks columns for."""
    wanted: list[pa.Schema] = field(default_factory=list)


def remake(metadata: TableMetadata, decoder: Decoder | None, letters: Sequence[Letter]) -> Remade:
    """Rows for the table as it is."""
    maker = RowDecoder(DecodingRules.of(metadata, decoder), partial(lacks, metadata))
    done = Remade()
    for some in _alike(letters):
        partition = some[0].place.partition
        offsets = pa.array([each.place.offset for each in some], pa.int64())
        batch = pa.concat_batches([each.record for each in some])
        made = maker.decode_at(batch, partition, offsets)
        misfits = made.misfits.rows.to_pydict() if made.misfits else {OFFSET: [], "error": []}
        fitting = [Place(partition, offset) for offset in made.batch.column(OFFSET).to_pylist()]
        stuck = {Place(partition, at): why for at, why in zip(misfits[OFFSET], misfits["error"], strict=True)}
        done.rows.append(made.batch)
        done.places += fitting
        done.stuck |= stuck
        done.wanted += made.wanted
        settled = {*fitting, *stuck}
        done.wanting |= dict.fromkeys(each.place for each in some if each.place not in settled)
    return done


def _alike(letters: Iterable[Letter]) -> list[list[Letter]]:
    """Those of one partition whose records have one schema, in the order of their offsets."""
    groups: defaultdict[tuple[int, pa.Schema], list[Letter]] = defaultdict(list)
    for letter in sorted(letters, key=lambda each: each.place):
        groups[letter.place.partition, letter.record.schema].append(letter)
    return list(groups.values())
