"""Finds out whose rows a request may see: those of the tenant in its `X-Scope-OrgID` header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyarrow.types import is_binary, is_fixed_size_binary, is_floating, is_nested, is_string

from frazil.config.model import Config
from frazil.config.sections.telemetry import NAME_RULE, is_tenant
from frazil.errors import ConfigError, InvalidTenant
from frazil.scan.predicates.simplify import FALSE
from frazil.scan.predicates.tree import Column, Comparison, Or, Predicate

HEADER = "x-scope-orgid"
DEFAULT = "default"
"""Requests without the header belong to this tenant."""
MOST_TENANTS = 100
"""A query may read the rows of this many tenants."""


class Tenant(NamedTuple):
    """Is a filter that every read of a topic with a tenant column must have."""

    column: str
    name: str


def tenant_name(headers: Sequence[str]) -> str:
    """`headers` has all values of the header. Two of them are refused, because it is unclear which is meant."""
    if len(headers) > 1:
        raise InvalidTenant(f"X-Scope-OrgID is there {len(headers)} times. Send it once, with one tenant.")
    name = headers[0] if headers else DEFAULT
    if not is_tenant(name):
        raise InvalidTenant(f"{name!r} in X-Scope-OrgID cannot be a tenant: {NAME_RULE}.")
    return name


def tenant_names(headers: Sequence[str], *, several: bool) -> tuple[str, ...]:
    """Returns the tenants whose rows a query reads: one or, with `several`, all that the header names as `a|b`."""
    if len(headers) != 1 or "|" not in headers[0]:
        return (tenant_name(headers),)
    if not several:
        raise InvalidTenant(
            f"{headers[0][:100]!r} in X-Scope-OrgID names several tenants, which queries may not do here "
            f"(`query.multi_tenant`)."
        )
    names = dict.fromkeys(tenant_name([each]) for each in headers[0].split("|"))
    if len(names) > MOST_TENANTS:
        raise InvalidTenant(f"X-Scope-OrgID names {len(names)} tenants. A query reads {MOST_TENANTS} at most.")
    return tuple(names)


def tenant_of(config: Config, topic: str, headers: Sequence[str]) -> Tenant | None:
    """Returns the tenant whose rows of a topic the request sees, or None for all. An invalid name is refused."""
    name = tenant_name(headers)
    column = config.topic(topic).tenant_column
    return Tenant(column, name) if column else None


def rows_of(column: str, names: Sequence[str], schema: pa.Schema) -> Predicate:
    """Returns a condition that is true for the rows of all these tenants."""
    own = tuple(own_rows(Tenant(column, name), schema) for name in names)
    return own[0] if len(own) == 1 else Or(own)


def own_rows(tenant: Tenant, schema: pa.Schema) -> Predicate:
    """Returns a condition that is true for the tenant's rows: their column has its name, as text or as bytes."""
    column, kind = Column(tenant.column), schema.field(tenant.column).type
    if is_nested(kind):
        raise ConfigError(
            f"tenant_column: {tenant.column!r} is of type {kind}, which cannot be a name; take a column of text."
        )
    if is_string(kind) or is_binary(kind) or is_fixed_size_binary(kind):
        return Comparison(column, "==", tenant.name)
    # A value has one name: `7` is one, but neither `07` nor `7e0` is that of the same tenant.
    try:
        value = pa.scalar(tenant.name).cast(kind)
        same = value.cast(pa.string()).as_py() == tenant.name
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return FALSE
    negative_zero = is_floating(kind) and value.as_py() == 0 and tenant.name.startswith("-")
    return Comparison(column, "==", value.as_py()) if same and not negative_zero else FALSE
