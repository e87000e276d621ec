"""Computes the labels of a data point's Prometheus series, and an id by which the points of one series are found.

The labels are the name of the metric, `job` and `instance` of the resource, and the attributes of the point. A label
without a value is absent. The id is a hash that does not depend on the order of the labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.telemetry.hashing import BITS, FACTOR, Words, hash_text, hash_texts, mix, mix_all
from frazil.formats.telemetry.prometheus_names import label_name
from frazil.formats.telemetry.runs import Ints

NAME, JOB, INSTANCE = "__name__", "job", "instance"
_SERVICE, _NAMESPACE, _ID = "service.name", "service.namespace", "service.instance.id"

Pairs = Iterable[tuple[str, str | None]]


class SharedLabels(NamedTuple):
    """The labels that points get from metric and resource; null or empty where there is none."""

    names: pa.Array
    jobs: pa.Array
    instances: pa.Array


# --- of one ----------------------------------------------------------------------------------------------------


def labels(name: str, attributes: Pairs, resource: Pairs = (), translated: bool = True) -> dict[str, str]:
    """Returns the labels of a point. Attributes whose names become the same label have their values joined, in the
    order of their keys.

    Rows without `metadata` came from Prometheus: their attributes are labels already, and not `translated`.
    """
    found: dict[str, str] = {}
    for key, text in sorted(attributes):
        label = label_name(key) if translated else key
        found[label] = f"{found[label]};{text or ''}" if label in found else text or ""
    of = dict(resource)
    job = of.get(_SERVICE)
    if job and of.get(_NAMESPACE):
        job = f"{of[_NAMESPACE]}/{job}"
    found |= {label: text for label, text in ((JOB, job), (INSTANCE, of.get(_ID))) if text}
    found[NAME] = name
    return {label: text for label, text in found.items() if text}


def series_id(labels: Mapping[str, str]) -> int:
    total = sum(mix(_of_name(name) + hash_text(value) & BITS) for name, value in labels.items())
    mixed = mix(total & BITS)
    return mixed - (1 << 64) if mixed >> 63 else mixed


def _of_name(label: str) -> int:
    """Returns the hash of a label's name. It is multiplied, so that swapping name and value gives another hash."""
    return hash_text(label) * FACTOR & BITS


# --- of many ---------------------------------------------------------------------------------------------------


def jobs_and_instances(resources: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Returns `job` and `instance` of resources."""
    names = pc.map_lookup(resources, _SERVICE, "first")
    spaces = pc.map_lookup(resources, _NAMESPACE, "first")
    if spaces.null_count < len(spaces):
        known = pc.and_(pc.not_equal(names, ""), pc.not_equal(spaces, ""))
        names = pc.if_else(known.fill_null(False), pc.binary_join_element_wise(spaces, names, "/"), names)
    return names, pc.map_lookup(resources, _ID, "first")


def series_ids(owners: SharedLabels, places: Ints, attributes: pa.MapArray, translated: bool = True) -> pa.Array:
    """Returns the `series_id` of the `labels` of all points; `places` has the index in `owners` of each."""
    offsets, keys, texts = _entries(attributes)
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy()
    known = [_label(key, translated) for key in encoded.dictionary.to_pylist()]
    names = [name for name, _ in known]
    hashes = _hash_columns(texts, *owners)
    hashed = _hash_pairs(np.array([number for _, number in known], np.uint64)[codes], hashes[0])
    of_owners = np.zeros(len(owners.names), np.uint64)
    for label, of_label in zip((NAME, JOB, INSTANCE), hashes[1:], strict=True):
        of_owners += _hash_pairs(np.uint64(_of_name(label)), of_label)
        replaced = (of_label > 0) | (label == NAME)
        if label in names and replaced.any():
            # Labels from metric and resource replace those from attributes.
            at = np.flatnonzero(np.isin(codes, [code for code, name in enumerate(names) if name == label]))
            hashed[at[replaced[places[_rows(offsets, at)]]]] = 0
    sums = np.zeros(len(hashed) + 1, np.uint64)
    np.cumsum(hashed, out=sums[1:])
    found: Ints = mix_all(sums[offsets[1:]] - sums[offsets[:-1]] + of_owners[places]).view(np.int64)
    for row in _joining(names, codes, offsets):
        found[row] = series_id(_labels_of(owners, places[row], attributes[row]))
    return pa.array(found)


def _entries(maps: pa.MapArray) -> tuple[Ints, pa.Array, pa.Array]:
    """Returns the offsets of the maps among their entries, the keys, and the values."""
    offsets = maps.offsets.to_numpy().astype(np.int64)
    count = offsets[-1] - offsets[0]
    return offsets - offsets[0], maps.keys.slice(offsets[0], count), maps.items.slice(offsets[0], count)


def _hash_columns(*columns: pa.Array) -> list[Words]:
    """Hashes columns; each distinct text is hashed once."""
    texts = [column.dictionary if isinstance(column, pa.DictionaryArray) else column for column in columns]
    encoded = pa.concat_arrays(texts).dictionary_encode(null_encoding="encode")
    hashes = hash_texts(encoded.dictionary)[encoded.indices.to_numpy()]
    found = np.split(hashes, np.cumsum([len(each) for each in texts[:-1]]))
    return [
        each[column.indices.to_numpy()] if isinstance(column, pa.DictionaryArray) else each
        for column, each in zip(columns, found, strict=True)
    ]


@lru_cache(maxsize=4096)
def _label(key: str, translated: bool) -> tuple[str, int]:
    """Returns the label that an attribute becomes, and the hash of its name."""
    name = label_name(key) if translated else key
    return name, _of_name(name)


def _hash_pairs(names: Words | np.uint64, values: Words) -> Words:
    """Returns the hashes of labels from those of names and values; 0 for labels without a value."""
    return np.where(values > 0, mix_all(names + values), np.uint64(0))


def _rows(offsets: Ints, at: Ints) -> Ints:
    """Returns the rows of the entries at these positions."""
    return np.searchsorted(offsets, at, side="right") - 1


def _joining(names: list[str], codes: Ints, offsets: Ints) -> Ints:
    """Returns the rows where several attributes become one label; `codes` has the index in `names` of each entry."""
    distinct = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if len(distinct) == len(names):
        return np.zeros(0, np.int64)
    numbers = np.array([distinct[name] for name in names])
    at = np.flatnonzero((np.bincount(numbers) > 1)[numbers][codes])
    both, times = np.unique(_rows(offsets, at) * len(distinct) + numbers[codes[at]], return_counts=True)
    return np.unique(both[times > 1] // len(distinct))


def _labels_of(owners: SharedLabels, place: int, attributes: pa.MapScalar) -> dict[str, str]:
    name, job, instance = (column[place].as_py() for column in owners)
    return labels(name, attributes.as_py(), [(_SERVICE, job), (_ID, instance)])
