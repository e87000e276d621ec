"""Runs all cases in a folder: `python -m tests.conformance logql DIRECTORY`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.conformance import logql


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("language", choices=["logql"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--memory", action="store_true", help="give the engine arrays, without log and table")
    given = parser.parse_args(arguments)
    return logql.run(given.directory, in_memory=given.memory, write=_write)


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
