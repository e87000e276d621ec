"""Reading a table's pages with their checksums verified.

PyIceberg reads Parquet as Arrow does unless it is told: without looking at checksums. Importing this puts it right.
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
