"""Resolves the `$ref`s of JSON Schema documents: to parts of the same document, or of one that it refers to."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from frazil.errors import SchemaUnsupported
from frazil.formats.registry.schema import RegisteredSchema


class Subschema(NamedTuple):
    """A schema, and the number of the document that contains it."""

    schema: Any
    """The content: an object or a boolean if the document is valid."""
    document: int


class Documents:
    def __init__(self, schema: RegisteredSchema) -> None:
        """Raises `SchemaUnsupported` if it is not JSON Schema."""
        self._contents: list[Any] = []
        self._named: dict[str, int] = {}
        self._add(schema, "")

    @property
    def root(self) -> Subschema:
        return Subschema(self._contents[0], 0)

    def follow(self, reference: str, place: Subschema) -> Subschema:
        """Returns the schema that a `$ref` in `place` refers to."""
        address, fragment = urldefrag(reference)
        number = place.document
        if address:
            base = self._id(place.document)
            found = next(
                (self._named[name] for name in (address, urljoin(base, address)) if name in self._named), None
            )
            if found is None:
                raise SchemaUnsupported(f"it refers to {reference!r}, which is none of its references")
            number = found
        content = self._contents[number]
        for step in filter(None, fragment.split("/")):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                content = content[int(key)] if isinstance(content, list) else content[key]
            except (KeyError, IndexError, TypeError, ValueError):
                raise SchemaUnsupported(f"it refers to {reference!r}, which is not there") from None
        return Subschema(content, number)

    def _add(self, schema: RegisteredSchema, name: str) -> None:
        if schema.kind != "JSON":
            raise SchemaUnsupported(f"{name or 'it'} is {schema.kind}, not JSON Schema")
        try:
            content = json.loads(schema.text)
        except (ValueError, RecursionError) as error:
            raise SchemaUnsupported(f"{name or 'it'} is not JSON: {error}") from error
        number = len(self._contents)
        self._contents.append(content)
        for called in (name, self._id(number)):
            if called:
                self._named.setdefault(called.removesuffix("#"), number)
        for reference in schema.references:
            self._add(reference.schema, reference.name)

    def _id(self, number: int) -> str:
        content = self._contents[number]
        found = content.get("$id", content.get("id", "")) if isinstance(content, dict) else ""
        return found if isinstance(found, str) else ""
