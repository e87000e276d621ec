"""Prints the rows of a query on a terminal or in a pipe."""

from __future__ import annotations

import csv
import json
import sys
from typing import Any, Literal

import pyarrow as pa

from frazil.cli.terminal.output import count, print_table
from frazil.formats.json_rows import rows_to_json

_SHOWN = 500
"""People are shown this many rows, and told how to get the rest."""


def print_rows(rows: pa.Table, output: Literal["human", "json", "csv", "arrow"], seconds: float) -> None:
    match output:
        case "human":
            _print_table(rows, seconds)
        case "json":
            sys.stdout.write(rows_to_json(rows).decode() + "\n")
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(rows.column_names)
            writer.writerows([_cell(value) for value in row] for row in _values(rows))
        case "arrow":
            with pa.ipc.new_stream(sys.stdout.buffer, rows.schema) as stream:
                stream.write_table(rows)


def _print_table(rows: pa.Table, seconds: float) -> None:
    print_table(rows.column_names, [[_cell(value) for value in row] for row in _values(rows.slice(0, _SHOWN))])
    more = f", of which the first {_SHOWN:,} are shown (--output json has all)" if len(rows) > _SHOWN else ""
    print(f"\n{count(len(rows), 'row')} in {seconds:.2f} s{more}")


def _values(rows: pa.Table) -> list[list[Any]]:
    """Returns the rows as lists of JSON values, so that times, bytes and decimals are written one way."""
    return [list(row.values()) for row in json.loads(rows_to_json(rows))]


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
