"""Keeps schemas on disk, so that records can be decoded while the registry is down, also after a restart."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from pathlib import Path

from frazil.formats.registry.schema import RegisteredSchema
from frazil.formats.registry.wire import SchemaId

logger = logging.getLogger(__name__)

_LONGEST_NAME = 64


class SchemaFolder:
    """Has a file for each schema of one registry: a checksum, then the schema. A damaged file counts as missing."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder / hashlib.sha256(address.encode()).hexdigest()[:16]

    def load(self, schema: SchemaId) -> RegisteredSchema | None:
        path = self._path(schema)
        try:
            checksum, _, text = path.read_text().partition("\n")
            if checksum != _checksum(text):
                raise ValueError("its checksum is wrong")
            return RegisteredSchema.from_json(text)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("The stored schema %s is asked for again: it cannot be read: %s", path, error)
            return None

    def store(self, schema: SchemaId, content: RegisteredSchema) -> None:
        """Store a schema. A failure is only logged, for the registry can be asked again."""
        text = content.to_json()
        path = self._path(schema)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".part")
            with os.fdopen(handle, "w") as file:
                file.write(f"{_checksum(text)}\n{text}")
            os.replace(temporary, path)
        except OSError as error:
            logger.warning("Schema %s cannot be kept in %s: %s", schema, self._folder, error)

    def _path(self, schema: SchemaId) -> Path:
        return self._folder / f"{str(schema)[:_LONGEST_NAME]}.json"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
