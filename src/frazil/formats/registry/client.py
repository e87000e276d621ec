"""Asks a schema registry (Confluent's API) once for each schema, and remembers it for ever.

A schema never changes under its id, so it is kept in memory and on disk. When a registry is down or fails,
`RegistryUnavailable` is raised (or `DependencyUnavailable`, when it has failed too often to be asked), and trying
again helps. When it has no such schema, `SchemaNotRegistered` is raised, and the record that names it is to blame.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from frazil.backoff import Backoff
from frazil.config.model import Config
from frazil.config.sections.kafka import RegistryConfig
from frazil.config.sections.retry import BreakerConfig
from frazil.errors import FrazilError, RegistryError, SchemaNotRegistered, SchemaUnsupported
from frazil.formats.registry.disk import SchemaFolder
from frazil.formats.registry.http import RegistryHttp
from frazil.formats.registry.schema import Reference, RegisteredSchema
from frazil.formats.registry.wire import SchemaId
from frazil.ops.breaker import CircuitBreaker
from frazil.ops.retry import retrying

logger = logging.getLogger(__name__)

MOST_REFERENCES = 1000
"""A schema with more references, those of its references included, is a mistake or has a loop."""

NEWEST_SECONDS = 10.0
"""The newest schema of a subject is asked for again after this time."""

UNKNOWN_SECONDS = 30.0
"""An id that the registry does not know is not asked for again within this time."""

MOST_UNKNOWN = 10_000
"""This many unknown ids are remembered."""

_HIGHEST_ID = 2**31 - 1
"""Registries number their schemas with Java's `int`."""

_PROBE_PATH = "/subjects/frazil-check/versions/latest"
"""Every registry has an answer for this path."""

# Callers try again later and for longer; these tries only bridge a hiccup.
_BACKOFF = Backoff(base_seconds=0.1, longest_seconds=1.0, max_attempts=3)


@dataclass(frozen=True)
class Registry:
    """Holds settings that can be sent to other processes. Each process has one client for equal settings."""

    config: RegistryConfig
    folder: Path
    """Schemas are kept on disk in this folder."""
    breaker: BreakerConfig

    @classmethod
    def of(cls, config: Config) -> Registry:
        return cls(config.kafka.registry, config.data_dir.absolute() / "schemas", config.pipeline.breaker)

    def schema(self, schema: SchemaId) -> RegisteredSchema:
        """Return the schema with this number or GUID. Raises `SchemaNotRegistered` if there is none."""
        return _client(self).schema(schema)

    def newest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of a subject, or None if there is no such subject."""
        return _client(self).newest(subject)

    def check(self) -> str:
        """Ask the registry for anything, and return its address without credentials."""
        return _client(self).check()


class RegistryClient:
    def __init__(
        self, registry: Registry, clock: Callable[[], float] = time.monotonic, rng: random.Random | None = None
    ) -> None:
        self._http = RegistryHttp(registry.config)
        self._disk = SchemaFolder(registry.folder, self._http.address)
        self._breaker = CircuitBreaker("the schema registry", registry.breaker, about=RegistryError)
        self._clock = clock
        self._rng = rng or random.Random()
        self._schemas: dict[SchemaId, RegisteredSchema] = {}
        self._newest: dict[str, tuple[float, RegisteredSchema | None]] = {}
        self._unknown: dict[SchemaId, float] = {}
        self._lock = threading.Lock()

    def schema(self, schema: SchemaId) -> RegisteredSchema:
        # Callers whose schema is known must not wait for a thread that waits for the registry.
        known = self._schemas.get(schema)
        if known is not None:
            return known
        with self._lock:
            found = self._disk.load(schema)
            if found is None:
                found = self._fetched(schema)
                self._disk.store(schema, found)
            self._schemas[schema] = found
            return found

    def newest(self, subject: str) -> RegisteredSchema | None:
        with self._lock:
            asked, found = self._newest.get(subject, (None, None))
            if asked is None or self._clock() - asked > NEWEST_SECONDS:
                answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
                found = None if answer is None else self._resolved(answer, _ReferenceBudget())
                self._newest[subject] = self._clock(), found
            return found

    def check(self) -> str:
        with self._lock:
            self._http.get(_PROBE_PATH)
        return self._http.address

    def _fetched(self, schema: SchemaId) -> RegisteredSchema:
        asked = self._unknown.get(schema)
        if asked is None or self._clock() - asked > UNKNOWN_SECONDS:
            answer = self._by_number(schema) if isinstance(schema, int) else self._by_guid(schema)
            if answer is not None:
                return self._resolved(answer, _ReferenceBudget())
            self._forget_unknown()
            self._unknown[schema] = self._clock()
        raise SchemaNotRegistered(f"schema {schema} is not in the registry {self._http.address}")

    def _by_number(self, number: int) -> dict[str, Any] | None:
        return self._get(f"/schemas/ids/{number}") if number <= _HIGHEST_ID else None

    def _by_guid(self, guid: str) -> dict[str, Any] | None:
        """Ask for a schema by its GUID. It is no error if the bytes are no GUID, or an old registry has none."""
        if not self._http.proven:
            self._get(_PROBE_PATH)
        return self._get(f"/schemas/guids/{guid}", common=False)

    def _forget_unknown(self) -> None:
        """Keep the unknown ids few, for payloads that have no id at all may show any number."""
        if len(self._unknown) >= MOST_UNKNOWN:
            self._unknown.clear()

    def _resolved(self, answer: dict[str, Any], budget: _ReferenceBudget) -> RegisteredSchema:
        """Return the schema of an answer, with the schemas that it refers to."""
        try:
            text = answer["schema"]
            named = [(each["name"], each["subject"], each["version"]) for each in answer.get("references") or ()]
        except (KeyError, TypeError) as error:
            raise RegistryError(f"The registry {self._http.address} answers without {error}.") from error
        references = tuple(
            Reference(name, self._version(subject, version, budget)) for name, subject, version in named
        )
        return RegisteredSchema(str(answer.get("schemaType") or "AVRO").upper(), str(text), references)

    def _version(self, subject: str, version: int, budget: _ReferenceBudget) -> RegisteredSchema:
        budget.spend()
        # Deleted versions are wanted too, for records that were written with them still exist.
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true")
        if answer is None:
            raise SchemaNotRegistered(
                f"version {version} of subject {subject!r}, which the schema refers to, is not in the registry "
                f"{self._http.address}"
            )
        return self._resolved(answer, budget)

    def _get(self, path: str, *, common: bool = True) -> dict[str, Any] | None:
        with self._breaker:
            return retrying(lambda: self._http.get(path, common=common), _BACKOFF, self._rng, on_retry=_log_retry)


class _ReferenceBudget:
    """Counts how many references may still be followed."""

    def __init__(self) -> None:
        self._left = MOST_REFERENCES

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise SchemaUnsupported(f"the schema refers to more than {MOST_REFERENCES} others")


def _log_retry(error: FrazilError, _: int, seconds: float) -> None:
    logger.warning("%s It is asked again in %.1f s.", error, seconds)


@lru_cache(maxsize=16)
def _client(registry: Registry) -> RegistryClient:
    return RegistryClient(registry)
