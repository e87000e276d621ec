"""Patches PyIceberg so that it verifies page checksums when it reads Parquet files.

PyIceberg uses Arrow's default, which ignores the checksums. Importing this module patches it.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.io import pyarrow as reading
from pyiceberg.manifest import FileFormat

_plain = reading._get_file_format


def _verifying(file_format: FileFormat, **options: Any) -> Any:
    if file_format == FileFormat.PARQUET:
        options["page_checksum_verification"] = True
    return _plain(file_format, **options)


reading._get_file_format = _verifying  # type: ignore[assignment]
