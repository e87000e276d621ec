"""Reading a table's pages with their checksums verified.

PyIceberg reads Parquet as Arrow does unless it is told: without looking at checksums. Importing this puts it right.
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
