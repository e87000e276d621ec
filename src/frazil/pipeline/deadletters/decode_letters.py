"""Decodes dead letters again: some can become rows now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata

from frazil.formats.decoding import Decoder
from frazil.lake.evolution import must_change_for
from frazil.log.schema.columns import OFFSET
from frazil.pipeline.deadletters.letters import RecordLocation
from frazil.scan.decode import DecodingRules, RowDecoder


class DeadLetter(NamedTuple):
    location: RecordLocation
    record: pa.RecordBatch
    """The record as it was in the log."""
    marked: bool = False
    """This says whether the letter is marked as replayed."""


@dataclass
class DecodedLetters:
    rows: list[pa.RecordBatch] = field(default_factory=list)
    locations: list[RecordLocation] = field(default_factory=list)
    """The locations of the rows."""
    stuck: dict[RecordLocation, str] = field(default_factory=dict)
    """The letters that still cannot become rows, with the reasons."""
    wanting: dict[RecordLocation, None] = field(default_factory=dict)
    """The letters for which the table lacks columns."""
    wanted: list[pa.Schema] = field(default_factory=list)


def decode_letters(metadata: TableMetadata, decoder: Decoder | None, letters: Sequence[DeadLetter]) -> DecodedLetters:
    """Makes rows of the letters that fit the table as it is."""
    maker = RowDecoder(DecodingRules.of(metadata, decoder), partial(must_change_for, metadata))
    done = DecodedLetters()
    for some in _by_schema(letters):
        partition = some[0].location.partition
        offsets = pa.array([each.location.offset for each in some], pa.int64())
        batch = pa.concat_batches([each.record for each in some])
        made = maker.decode_at(batch, partition, offsets)
        misfits = made.misfits.rows.to_pydict() if made.misfits else {OFFSET: [], "error": []}
        fitting = [RecordLocation(partition, offset) for offset in made.batch.column(OFFSET).to_pylist()]
        stuck = {
            RecordLocation(partition, at): why for at, why in zip(misfits[OFFSET], misfits["error"], strict=True)
        }
        done.rows.append(made.batch)
        done.locations += fitting
        done.stuck |= stuck
        done.wanted += made.wanted
        settled = {*fitting, *stuck}
        done.wanting |= dict.fromkeys(each.location for each in some if each.location not in settled)
    return done


def _by_schema(letters: Iterable[DeadLetter]) -> list[list[DeadLetter]]:
    """Groups letters by partition and record schema, in the order of their offsets."""
    groups: defaultdict[tuple[int, pa.Schema], list[DeadLetter]] = defaultdict(list)
    for letter in sorted(letters, key=lambda each: each.location):
        groups[letter.location.partition, letter.record.schema].append(letter)
    return list(groups.values())
