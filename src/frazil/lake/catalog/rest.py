"""A REST catalog whose requests fail when no answer comes in time."""

from __future__ import annotations

import json
from typing import Any

# PyIceberg makes its requests with this library, and has no setting for how long one may take.
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from frazil.lake.pyiceberg_internals import RestCatalogWithSession

CONNECT_SECONDS = 5.0

_ADD_SCHEMA = "add-schema"
_LAST_COLUMN = "last-column-id"


class PatientRestCatalog(RestCatalogWithSession):
    """Sets timeouts. PyIceberg's catalog has none, so a server that never answers would hold a commit for ever."""

    def __init__(self, name: str, seconds: float, **properties: Any) -> None:
        self._seconds = seconds
        super().__init__(name, **properties)

    def prepare_session(self, session: Session) -> None:
        for prefix, adapter in list(session.adapters.items()):
            # An adapter that signs requests does so after this.
            session.mount(prefix, _with_timeouts(adapter, self._seconds))


def _with_timeouts(adapter: Any, seconds: float) -> HTTPAdapter:
    send = adapter.send
    # A repeated POST could commit twice, so callers decide whether to repeat it, after they looked at the table.
    adapter.max_retries = HTTPAdapter().max_retries

    def send_in_time(request: PreparedRequest, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or (min(CONNECT_SECONDS, seconds), seconds)
        name_last_column(request)
        response: Response = send(request, **options)
        return response

    adapter.send = send_in_time
    assert isinstance(adapter, HTTPAdapter)
    return adapter


def name_last_column(request: PreparedRequest) -> None:
    """Add the highest id of the columns to an update that adds a schema.

    PyIceberg leaves it out, because the schema shows it, but Nessie 0.99 answers 500 without it.
    """
    body = request.body
    if not isinstance(body, bytes) or _ADD_SCHEMA.encode() not in body:
        return
    content = json.loads(body)
    for update in content.get("updates", ()):
        if update.get("action") == _ADD_SCHEMA:
            update.setdefault(_LAST_COLUMN, _highest_id(update["schema"]))
    request.prepare_body(json.dumps(content).encode(), None)


def _highest_id(part: Any) -> int:
    """Return the highest id of the fields of a schema, or of a part of one."""
    if isinstance(part, list):
        return max(map(_highest_id, part), default=0)
    if not isinstance(part, dict):
        return 0
    own = [part[name] for name in ("id", "element-id", "key-id", "value-id") if name in part]
    return max(
        [*own, *(_highest_id(value) for name, value in part.items() if name not in {"doc", "name"})], default=0
    )
