"""Whose rows a request may see: the tenant that it names in `X-Scope-OrgID`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from frazil.config.model import Config
from frazil.errors import InvalidTenant

HEADER = "x-scope-orgid"
DEFAULT = "default"
"""The tenant of requests that name none."""

_NAME = re.compile(r"[A-Za-z0-9!\-_.*'()]{1,150}")


class Tenant(NamedTuple):
    """A filter that every read of a topic with a tenant column must have."""

    column: str
    name: str


def tenant_name(headers: Mapping[str, str]) -> str:
    """`headers` find their names in lower case, as those of Starlette do."""
    name = headers.get(HEADER, DEFAULT)
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidTenant(
            f"{name!r} in X-Scope-OrgID cannot be a tenant: use 1 to 150 of the characters A-Z a-z 0-9 "
            f"! - _ . * ' ( ) and neither . nor .. alone."
        )
    return name


def tenant_of(config: Config, topic: str, headers: Mapping[str, str]) -> Tenant | None:
    """Whose rows of a topic the request sees; None for all of them. A bad name is refused in any case."""
    name = tenant_name(headers)
    column = config.topic(topic).tenant_column
    return Tenant(column, name) if column else None
