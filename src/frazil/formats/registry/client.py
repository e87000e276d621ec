"""A schema registry (Confluent's API), asked once for each schema and remembered for ever.

A schema never changes under its id, so it is kept in memory and on disk. That a registry is down, or fails, is a
`RegistryUnavailable` (or `DependencyUnavailable`, when it has failed too often to be asked) and passes; that it has
no such schema is `SchemaNotRegistered`, which is about the record that names it.
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
"""Of one schema, those of references included: more is a mistake, or a loop."""

NEWEST_SECONDS = 10.0
"""How long the newest schema of a subject is believed to be it."""

UNKNOWN_SECONDS = 30.0
"""How long an id that the registry does not know is not asked for again."""

MOST_UNKNOWN = 10_000
"""Such ids that are remembered."""

_HIGHEST_ID = 2**31 - 1
"""Registries number their schemas by Java's `int`."""

_ANYTHING = "/subjects/frazil-check/versions/latest"
"""A path that every registry has an answer for."""

# Whoever asked tries again, later and longer; here only a hiccup is bridged.
_BACKOFF = Backoff(base_seconds=0.1, longest_seconds=1.0, max_attempts=3)


@dataclass(frozen=True)
class Registry:
    """Settings that can be sent anywhere. Each process has one client for all that are alike."""

    config: RegistryConfig
    folder: Path
    """Where schemas are kept on disk."""
    breaker: BreakerConfig

    @classmethod
    def of(cls, config: Config) -> Registry:
        return cls(config.kafka.registry, config.data_dir.absolute() / "schemas", config.pipeline.breaker)

    def schema(self, schema: SchemaId) -> RegisteredSchema:
        """By number, or by GUID. `SchemaNotRegistered` if there is none."""
        return _client(self).schema(schema)

    def newest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of a subject; None if there is no such subject."""
        return _client(self).newest(subject)

    def check(self) -> str:
        """Ask it for anything, now; what its address is, without credentials."""
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
        # What is known is not to wait for a registry that somebody else is waiting for.
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
                found = None if answer is None else self._resolved(answer, _Budget())
                self._newest[subject] = self._clock(), found
            return found

    def check(self) -> str:
        with self._lock:
            self._http.get(_ANYTHING)
        return self._http.address

    def _fetched(self, schema: SchemaId) -> RegisteredSchema:
        asked = self._unknown.get(schema)
        if asked is None or self._clock() - asked > UNKNOWN_SECONDS:
            answer = self._numbered(schema) if isinstance(schema, int) else self._named(schema)
            if answer is not None:
                return self._resolved(answer, _Budget())
            self._forget_unknown()
            self._unknown[schema] = self._clock()
        raise SchemaNotRegistered(f"schema {schema} is not in the registry {self._http.address}")

    def _numbered(self, number: int) -> dict[str, Any] | None:
        return self._get(f"/schemas/ids/{number}") if number <= _HIGHEST_ID else None

    def _named(self, guid: str) -> dict[str, Any] | None:
        """Bytes that are no schema's GUID look like one, and older registries know of none: both is no error."""
        if not self._http.proven:
            self._get(_ANYTHING)
        return self._get(f"/schemas/guids/{guid}", common=False)

    def _forget_unknown(self) -> None:
        """What are no ids at all may have any number."""
        if len(self._unknown) >= MOST_UNKNOWN:
            self._unknown.clear()

    def _resolved(self, answer: dict[str, Any], budget: _Budget) -> RegisteredSchema:
        """What was answered, with the schemas it refers to."""
        try:
            text = answer["schema"]
            named = [(each["name"], each["subject"], each["version"]) for each in answer.get("references") or ()]
        except (KeyError, TypeError) as error:
            raise RegistryError(f"The registry {self._http.address} answers without {error}.") from error
        references = tuple(
            Reference(name, self._version(subject, version, budget)) for name, subject, version in named
        )
        return RegisteredSchema(str(answer.get("schemaType") or "AVRO").upper(), str(text), references)

    def _version(self, subject: str, version: int, budget: _Budget) -> RegisteredSchema:
        budget.spend()
        # Also one that was deleted: what was written with it is still there.
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true")
        if answer is None:
            raise SchemaNotRegistered(
                f"version {version} of subject {subject!r}, which the schema refers to, is not in the registry "
                f"{self._http.address}"
            )
        return self._resolved(answer, budget)

    def _get(self, path: str, *, common: bool = True) -> dict[str, Any] | None:
        with self._breaker:
            return retrying(lambda: self._http.get(path, common=common), _BACKOFF, self._rng, on_retry=_tell)


class _Budget:
    """How many references may still be followed."""

    def __init__(self) -> None:
        self._left = MOST_REFERENCES

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise SchemaUnsupported(f"the schema refers to more than {MOST_REFERENCES} others")


def _tell(error: FrazilError, _: int, seconds: float) -> None:
    logger.warning("%s It is asked again in %.1f s.", error, seconds)


@lru_cache(maxsize=16)
def _client(registry: Registry) -> RegistryClient:
    return RegistryClient(registry)
