"""Compiles registered Protobuf schemas to descriptors: of the messages as they are, and as they are decoded.

Some well-known types are replaced by others with the same bytes. The decoder would change values of the former (times
beyond the range of nanoseconds), or they contain themselves (`Struct`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple

import protoxy
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from frazil.errors import SchemaUnsupported
from frazil.formats.protobuf.schema_limits import check_text
from frazil.formats.registry.schema import RegisteredSchema
from frazil.native import NativeFault, faults_as_errors

AS_SECONDS = {"google.protobuf.Timestamp", "google.protobuf.Duration"}
AS_BYTES = {f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Empty")}

_KNOWN = "google/protobuf/"
_MAIN = "frazil_main.proto"
_SECONDS_FILE = "frazil_seconds.proto"
_SECONDS = "frazil.Seconds"


class Files(NamedTuple):
    """A schema with all files that it imports."""

    pool: DescriptorPool
    main: FileDescriptorProto
    decoded: tuple[bytes, ...]
    """The serialized files as they are decoded, each after those that it imports."""

    def message(self, path: tuple[int, ...]) -> Descriptor | None:
        """Returns the message at these indexes; None if there is none."""
        siblings = list(self.main.message_type)
        names = [self.main.package] if self.main.package else []
        for index in path:
            declared = [message for message in siblings if not message.options.map_entry]
            if index >= len(declared):
                return None
            names.append(declared[index].name)
            siblings = list(declared[index].nested_type)
        return self.pool.FindMessageTypeByName(".".join(names)) if path else None


@lru_cache(maxsize=1024)
def compile_files(schema: RegisteredSchema) -> Files:
    """Compiles a schema. Raises `SchemaUnsupported` if it is not Protobuf, or invalid."""
    if schema.kind != "PROTOBUF":
        raise SchemaUnsupported(f"it is {schema.kind}, not Protobuf")
    compiled = _compiled(schema)
    pool = DescriptorPool()
    for file in compiled.file:
        pool.Add(file)
    return Files(pool, compiled.file[-1], tuple(_decoded(compiled)))


def _compiled(schema: RegisteredSchema) -> FileDescriptorSet:
    with TemporaryDirectory(prefix="frazil-protobuf-") as name:
        folder = Path(name)
        for path, text in _imports(schema):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            check_text(text)
            (folder / path).write_text(text)
        check_text(schema.text)
        (folder / _MAIN).write_text(schema.text)
        try:
            with faults_as_errors():
                files: FileDescriptorSet = protoxy.compile([folder / _MAIN], [folder], include_source_info=False)
        except (protoxy.ProtoxyError, DecodeError, NativeFault) as error:
            raise SchemaUnsupported(f"it cannot be compiled: {error}") from error
    if files.file[-1].name != _MAIN:
        raise SchemaUnsupported("it imports itself")
    return files


def _imports(schema: RegisteredSchema) -> Iterator[tuple[str, str]]:
    for reference in schema.references:
        path = PurePosixPath(reference.name)
        if path.is_absolute() or ".." in path.parts or path.name in ("", _MAIN):
            raise SchemaUnsupported(f"it imports {reference.name!r}, which is no name for a file")
        yield from _imports(reference.schema)
        if not reference.name.startswith(_KNOWN):
            yield reference.name, reference.schema.text


def _decoded(files: FileDescriptorSet) -> Iterator[bytes]:
    yield _seconds_file().SerializeToString()
    for file in files.file:
        replaced = FileDescriptorProto()
        replaced.CopyFrom(file)
        if not file.name.startswith(_KNOWN):
            replaced.dependency.append(_SECONDS_FILE)
            for message in replaced.message_type:
                _replace(message, replaced.syntax == "proto3")
        yield replaced.SerializeToString()


def _seconds_file() -> FileDescriptorProto:
    file = FileDescriptorProto(name=_SECONDS_FILE, package="frazil", syntax="proto3")
    message = file.message_type.add(name=_SECONDS.rpartition(".")[2])
    for number, (name, kind) in enumerate(
        {"seconds": FieldDescriptorProto.TYPE_INT64, "nanos": FieldDescriptorProto.TYPE_INT32}.items(), 1
    ):
        message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return file


def _replace(message: DescriptorProto, implicit: bool) -> None:
    for field in message.field:
        name = field.type_name.removeprefix(".")
        if name in AS_SECONDS:
            field.type_name = f".{_SECONDS}"
        elif name in AS_BYTES:
            field.ClearField("type_name")
            field.type = FieldDescriptorProto.TYPE_BYTES
            single = field.label == FieldDescriptorProto.LABEL_OPTIONAL and not message.options.map_entry
            if implicit and single and not field.HasField("oneof_index"):
                # As for any message, an empty value must be distinct from an absent one.
                field.oneof_index = len(message.oneof_decl)
                field.proto3_optional = True
                message.oneof_decl.add(name=f"_{field.name}")
    for nested in message.nested_type:
        _replace(nested, implicit)
