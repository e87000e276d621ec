"""Turns label sets of Prometheus into columns. A label without a value is absent, and the order of labels does not
matter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.telemetry.attributes import MAP
from frazil.formats.telemetry.runs import Ints
from frazil.formats.telemetry.series import JOB, NAME

Bools = npt.NDArray[np.bool_]

REPEATED = "the same label twice"
UNNAMED = "a label without a name"


class SeriesLabels(NamedTuple):
    """The labels of many sets, one set after the other."""

    keys: pa.Array
    values: pa.Array
    sets: Ints
    """The index of the set of each label; ascending."""
    size: int
    """The number of sets."""
    codes: Ints
    """The index in `names` of each label."""
    names: list[str]

    def places(self, name: str) -> Ints:
        """Returns the position of this label in each set; -1 where it has none."""
        found = np.full(self.size, -1, np.int64)
        at = np.flatnonzero(self.having(name))
        found[self.sets[at]] = at
        return found

    def having(self, *names: str) -> Bools:
        """Returns which labels have one of these names."""
        return np.array([name in names for name in self.names], bool)[self.codes]

    def text(self, places: Ints) -> pa.Array:
        return self.values.take(pa.array(places, mask=places < 0))

    def maps(self, chosen: Bools) -> pa.MapArray:
        """Returns the sets as maps with only the chosen labels."""
        offsets = np.zeros(self.size + 1, np.int32)
        np.cumsum(np.bincount(self.sets[chosen], minlength=self.size), out=offsets[1:])
        kept = pa.array(chosen)
        return pa.MapArray.from_arrays(pa.array(offsets), self.keys.filter(kept), self.values.filter(kept), MAP)

    def problems(self) -> dict[str, Bools]:
        """Returns the sets that can never be stored, by the reason."""
        found = {}
        if "" in self.names:
            found[UNNAMED] = np.isin(np.arange(self.size), self.sets[self.having("")])
        order = np.empty(len(self.names), np.int64)
        order[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        both = self.sets * len(self.names) + order[self.codes]
        # Senders sort labels by name; sorted labels without equal neighbours have no duplicates.
        if not (both[1:] > both[:-1]).all():
            both.sort()
            twice = both[1:][both[1:] == both[:-1]] // len(self.names)
            if len(twice):
                found[REPEATED] = np.isin(np.arange(self.size), twice)
        return found


def labels_of(lists: pa.ListArray) -> SeriesLabels:
    """Returns the labels of decoded lists of `Label`."""
    pairs = lists.flatten()
    keys, values = pairs.field("name"), pairs.field("value")
    sets = pc.list_parent_indices(lists).to_numpy()
    present = pc.binary_length(values).to_numpy() > 0
    if not present.all():
        keys, values, sets = keys.filter(pa.array(present)), values.filter(pa.array(present)), sets[present]
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    return SeriesLabels(keys, values, sets, len(lists), codes, encoded.dictionary.to_pylist())


class LabelSets(NamedTuple):
    """The columns that come from the labels of each series."""

    names: pa.Array
    """The names of the metrics."""
    jobs: pa.Array
    attributes: pa.MapArray
    """All labels but the name."""
    problems: dict[str, Bools]


def label_sets(lists: pa.ListArray) -> LabelSets:
    labels = labels_of(lists)
    at = labels.places(NAME)
    problems = labels.problems()
    if (at < 0).any():
        problems[f"no label `{NAME}`"] = at < 0
    others = np.ones(len(labels.codes), bool)
    others[at[at >= 0]] = False
    if REPEATED in problems:
        others &= ~problems[REPEATED][labels.sets]
    return LabelSets(labels.text(at), labels.text(labels.places(JOB)), labels.maps(others), problems)


def map_bytes(maps: pa.MapArray) -> Ints:
    """Returns the bytes of text in each map."""
    borders = maps.offsets.to_numpy()
    found: Ints = np.zeros(len(maps), np.int64)
    for texts in (maps.keys, maps.items):
        if len(texts):
            ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :]
            found += np.diff(ends[borders])
    return found
