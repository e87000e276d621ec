"""Makes the labels of series out of the columns of one row of each: name, attributes, resource."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.telemetry.prometheus_names import label_name
from frazil.formats.telemetry.series import INSTANCE, JOB, NAME, jobs_and_instances
from frazil.query.promql.series.labels import Column, LabelTable
from frazil.query.promql.storage.arrow_columns import Ints, Mask, entries

TEMPORALITY = "__temporality__"
TENANT = "__tenant_id__"
TYPE = "__type__"


class LabelColumns:
    """Collects labels, as codes into one pool of texts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool: list[str] = [""]
        self._codes: dict[str, npt.NDArray[np.int32]] = {}

    def add_texts(self, texts: Sequence[str | None]) -> int:
        """Returns the code of the first of these texts; the others follow."""
        first = len(self._pool)
        self._pool += [text or "" for text in texts]
        return first

    def codes(self, label: str) -> npt.NDArray[np.int32]:
        if label not in self._codes:
            self._codes[label] = np.zeros(self.size, np.int32)
        return self._codes[label]

    def replace(self, label: str, texts: pa.Array, rows: Ints) -> None:
        """Sets a label of some series where there is a text."""
        encoded = texts.dictionary_encode()
        first = self.add_texts(encoded.dictionary.to_pylist())
        filled = np.flatnonzero(np.asarray(pc.not_equal(texts, "").fill_null(False).to_numpy(zero_copy_only=False)))
        if len(filled):
            self.codes(label)[rows[filled]] = encoded.indices.take(pa.array(filled)).to_numpy() + first

    def add_maps(self, maps: pa.MapArray, rows: Ints, *, translated: bool) -> None:
        """Adds the entries of maps. Keys that become one label have their values joined, in the order of the keys."""
        found = entries(maps)
        if not len(found.keys):
            return
        owners = rows[found.rows]
        keys, texts = found.keys.dictionary_encode(), found.items.dictionary_encode()
        first = self.add_texts(texts.dictionary.to_pylist())
        key_codes = keys.indices.to_numpy()
        text_codes = texts.indices.fill_null(-first).to_numpy() + first
        names = keys.dictionary.to_pylist()
        seen: dict[str, Mask] = {}
        order = np.argsort(key_codes, kind="stable")
        borders = np.searchsorted(key_codes[order], np.arange(len(names) + 1))
        for code in sorted(range(len(names)), key=lambda code: names[code] or ""):
            at = order[borders[code] : borders[code + 1]]
            label = label_name(names[code]) if translated else names[code]
            codes, here = self.codes(label), owners[at]
            if label in seen and (both := seen[label][here]).any():
                self._join(codes, here[both], text_codes[at[both]])
                at, here = at[~both], here[~both]
            codes[here] = text_codes[at]
            seen.setdefault(label, np.zeros(self.size, bool))[here] = True

    def _join(self, codes: npt.NDArray[np.int32], rows: Ints, texts: Ints) -> None:
        for row, text in zip(rows.tolist(), texts.tolist(), strict=True):
            codes[row] = self.add_texts([f"{self._pool[codes[row]]};{self._pool[text]}"])

    def table(self) -> LabelTable:
        columns = {label: self._column(label) for label in sorted(self._codes)}
        return LabelTable(self.size, {name: column for name, column in columns.items() if len(column.values) > 1})

    def _column(self, label: str) -> Column:
        used, places = np.unique(self._codes[label], return_inverse=True)
        known: dict[str, int] = {"": 0}
        final = np.array([known.setdefault(self._pool[code], len(known)) for code in used.tolist()], np.int32)
        return Column(final[places.reshape(-1)], list(known))


def labels_of(rows: pa.RecordBatch, *, promoted: Sequence[str], tenants: bool) -> LabelTable:
    """Returns the labels of rows as queries show them; those of histograms and summaries without their suffixes."""
    found = LabelColumns(rows.num_rows)
    everyone = np.arange(rows.num_rows)
    foreign = np.asarray(rows.column("metadata").is_null().to_numpy(zero_copy_only=False), bool)
    attributes = rows.column("attributes")
    for translated in (False, True):
        at = everyone[foreign != translated]
        if len(at):
            found.add_maps(attributes.take(pa.array(at)), at, translated=translated)
    at = everyone[~foreign]
    if len(at):
        resources = rows.column("resource_attributes").take(pa.array(at))
        for key in promoted:
            found.replace(label_name(key), pc.map_lookup(resources, key, "first"), at)
        for label, texts in zip((JOB, INSTANCE), jobs_and_instances(resources), strict=True):
            found.replace(label, texts, at)
        delta = pc.equal(rows.column("aggregation_temporality").take(pa.array(at)), 1).fill_null(False)
        found.replace(TEMPORALITY, pc.if_else(delta, "delta", ""), at)
    found.replace(NAME, rows.column("prometheus_name"), everyone)
    if tenants:
        found.replace(TENANT, rows.column("tenant_id"), everyone)
    return found.table()
