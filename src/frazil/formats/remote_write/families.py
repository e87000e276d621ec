"""Remembers what Prometheus says about metric families: kind, help and unit.

Prometheus sends this in requests of its own, once a minute. So it is kept in memory for later samples, for each
tenant up to a limit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from frazil.formats.otlp.points import GAUGE, SUM
from frazil.formats.telemetry.lists import flat
from frazil.formats.telemetry.runs import Ints
from frazil.formats.telemetry.scopes import Columns

TENANT_BYTES = 2 << 20
"""The most bytes for each tenant: enough for some thousands of families. The oldest go first."""
TENANTS = 100
"""The most tenants. Those that sent nothing for longest go first."""

COUNTER, HISTOGRAM, GAUGE_HISTOGRAM, SUMMARY, INFO = 1, 3, 4, 5, 6
"""The kinds of families. All others have plain samples, which are gauges."""


class Family(NamedTuple):
    kind: int
    description: str
    unit: str


class _Role(NamedTuple):
    """Says what samples with a name are within their family."""

    kinds: tuple[int, ...]
    summed: bool = False
    monotonic: bool = False


_SUFFIXES = {
    "_bucket": (_Role((HISTOGRAM,), True, True), _Role((GAUGE_HISTOGRAM,))),
    # A sum may fall, because measurements can be negative.
    "_sum": (_Role((HISTOGRAM, SUMMARY), True, False),),
    "_count": (_Role((HISTOGRAM, SUMMARY), True, True),),
    "_total": (_Role((COUNTER,), True, True),),
    "_gsum": (_Role((GAUGE_HISTOGRAM,)),),
    "_gcount": (_Role((GAUGE_HISTOGRAM,)),),
    "_created": (_Role((COUNTER, HISTOGRAM, SUMMARY)),),
    "_info": (_Role((INFO,)),),
}
"""The suffixes that samples add to the name of their family."""
_COUNTER, _PLAIN = _Role((COUNTER,), True, True), _Role(())


class Families:
    """The families of all tenants. It is thread-safe."""

    def __init__(self, tenant_bytes: int = TENANT_BYTES, tenants: int = TENANTS) -> None:
        self._tenant_bytes = tenant_bytes
        self._most_tenants = tenants
        self._lock = threading.Lock()
        self._tenants: OrderedDict[str, _TenantFamilies] = OrderedDict()

    def learn(self, metadata: pa.ListArray, tenants: Sequence[str]) -> None:
        """Learns from decoded lists of `MetricMetadata`, one for each tenant; the latest counts."""
        entries, whose = flat(metadata)
        if not len(entries):
            return
        with self._lock:
            for place, each in zip(whose.tolist(), entries.to_pylist(), strict=True):
                family = Family(each["type"], each["help"], each["unit"])
                self._of(tenants[place]).remember(each["metric_family_name"], family)

    def describe(self, names: pa.Array, whose: Ints, tenants: Sequence[str]) -> Columns:
        """Returns the columns that describe samples of these names; `whose` has the index of each one's tenant."""
        encoded = names.dictionary_encode(null_encoding="encode")
        distinct = encoded.dictionary.to_pylist()
        both = pa.array(whose * len(distinct) + encoded.indices.to_numpy()).dictionary_encode()
        found: list[tuple[Family | None, _Role]] = []
        with self._lock:
            for code in both.dictionary.to_pylist():
                tenant, name = divmod(code, len(distinct))
                of_tenant = self._tenants.get(tenants[tenant])
                found.append(of_tenant.find(distinct[name] or "") if of_tenant else (None, _PLAIN))
        columns = {
            "description": pa.array([family and family.description for family, _ in found], pa.string()),
            "unit": pa.array([family and family.unit for family, _ in found], pa.string()),
            **_kinds([role for _, role in found]),
        }
        return {name: column.take(both.indices) for name, column in columns.items()}

    def _of(self, tenant: str) -> _TenantFamilies:
        if tenant not in self._tenants:
            self._tenants[tenant] = _TenantFamilies(self._tenant_bytes)
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > self._most_tenants:
            self._tenants.popitem(last=False)
        return self._tenants[tenant]


class _TenantFamilies:
    def __init__(self, most_bytes: int) -> None:
        self._room = most_bytes
        self._families: OrderedDict[str, Family] = OrderedDict()

    def remember(self, name: str, family: Family) -> None:
        if name in self._families:
            self._room += _size(name, self._families.pop(name))
        self._families[name] = family
        self._room -= _size(name, family)
        while self._room < 0:
            self._room += _size(*self._families.popitem(last=False))

    def find(self, name: str) -> tuple[Family | None, _Role]:
        if family := self._families.get(name):
            return family, _COUNTER if family.kind == COUNTER else _PLAIN
        family = self._families.get(name.rpartition("_")[0])
        role = _role_by_suffix(name, family.kind) if family else None
        return (family, role) if role else (None, _PLAIN)


def kinds_of(names: pa.Array, kinds: Ints) -> Columns:
    """Returns the columns that describe samples of these names, in families of these kinds."""
    encoded = names.dictionary_encode(null_encoding="encode")
    distinct = encoded.dictionary.to_pylist()
    known = np.where((kinds >= 0) & (kinds <= INFO), kinds, 0).astype(np.int64)
    both = pa.array(known * len(distinct) + encoded.indices.to_numpy()).dictionary_encode()
    roles = []
    for code in both.dictionary.to_pylist():
        kind, name = divmod(code, len(distinct))
        plain = _COUNTER if kind == COUNTER else _PLAIN
        roles.append(_role_by_suffix(distinct[name] or "", kind) or plain)
    return {name: column.take(both.indices) for name, column in _kinds(roles).items()}


def _role_by_suffix(name: str, kind: int) -> _Role | None:
    """Returns the role of samples of this name in a family of this kind; None if the name does not say it."""
    _, underscore, word = name.rpartition("_")
    return next((role for role in _SUFFIXES.get(underscore + word, ()) if kind in role.kinds), None)


def _kinds(roles: list[_Role]) -> Columns:
    summed = np.array([role.summed for role in roles], bool)
    monotonic = np.array([role.monotonic for role in roles], bool)
    temporality = np.full(len(roles), AGGREGATION_TEMPORALITY_CUMULATIVE, np.int32)
    return {
        "metric_type": pa.array([SUM if role.summed else GAUGE for role in roles], pa.string()),
        "is_monotonic": pa.array(monotonic, mask=~summed),
        "aggregation_temporality": pa.array(temporality, mask=~summed),
    }


_OBJECTS = 400
"""The approximate bytes of Python's objects for a family, without its texts."""


def _size(name: str, family: Family) -> int:
    # A character takes up to four bytes.
    return _OBJECTS + 4 * (len(name) + len(family.description) + len(family.unit))
