"""Encodes data files for the way from the task that wrote them to the driver that commits them.

The bytes are a version and compressed JSON, with bounds in base64. They are small and can be read without Frazil.
Partition values have their type beside them, so that they can be decoded without the table.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from decimal import Decimal
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from frazil.errors import SerializationError

_VERSION = 1
_NUMBERS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


def encode_data_file(file: DataFile) -> bytes:
    described: dict[str, Any] = {
        "path": file.file_path,
        "spec": file.spec_id,
        "partition": [_tagged(file.partition[place]) for place in range(len(file.partition))],
        "rows": file.record_count,
        "size": file.file_size_in_bytes,
        "splits": file.split_offsets,
        "order": file.sort_order_id,
        **{name: list(getattr(file, name).items()) for name in _NUMBERS},
        **{name: [(key, _text(value)) for key, value in getattr(file, name).items()] for name in _BOUNDS},
    }
    return bytes([_VERSION]) + zlib.compress(json.dumps(described, separators=(",", ":")).encode())


def decode_data_file(data: bytes) -> DataFile:
    """Decodes a data file. Raises `SerializationError` if the bytes are damaged or of another version."""
    if data[:1] != bytes([_VERSION]):
        raise SerializationError(
            f"A data file came in format {data[:1].hex() or 'none'}, not {_VERSION}. Run the same version of Frazil "
            f"on the driver and all executors."
        )
    try:
        described = json.loads(zlib.decompress(data[1:]))
        metrics: dict[str, Any] = {name: dict(described[name]) for name in _NUMBERS}
        metrics |= {name: {key: b64decode(text) for key, text in described[name]} for name in _BOUNDS}
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=described["path"],
            file_format=FileFormat.PARQUET,
            partition=Record(*(_untagged(*tagged) for tagged in described["partition"])),
            record_count=described["rows"],
            file_size_in_bytes=described["size"],
            split_offsets=described["splits"],
            sort_order_id=described["order"],
            **metrics,
        )
        file.spec_id = described["spec"]
    except (zlib.error, ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise SerializationError(f"A data file did not arrive whole: {error}.") from error
    return file


def _tagged(value: Any) -> tuple[str, Any]:
    match value:
        case None | bool() | int():
            return "plain", value
        case str():
            return "text", value
        case float():
            return "float", value.hex()
        case Decimal():
            return "decimal", str(value)
        case bytes():
            return "bytes", _text(value)
    raise SerializationError(f"A partition has a value of type {type(value).__name__}, which cannot be sent.")


def _untagged(kind: str, value: Any) -> Any:
    match kind:
        case "float":
            return float.fromhex(value)
        case "decimal":
            return Decimal(value)
        case "bytes":
            return b64decode(value)
        case "plain" | "text":
            return value
    raise ValueError(f"a partition value of kind {kind}")


def _text(binary: bytes) -> str:
    return b64encode(binary).decode()
