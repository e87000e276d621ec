"""Patches PyIceberg so that it verifies page checksums when it reads Parquet files.

PyIceberg uses Arrow's default, which ignores the checksums. Importing this module patches it.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from pyiceberg.manifest import FileFormat

from frazil.lake.pyiceberg_internals import FileFormatMaker, wrap_file_formats


def _verifying(plain: FileFormatMaker) -> FileFormatMaker:
    @wraps(plain)
    def make(file_format: FileFormat, **options: Any) -> Any:
        if file_format == FileFormat.PARQUET:
            options["page_checksum_verification"] = True
        return plain(file_format, **options)

    return make


wrap_file_formats(_verifying)
