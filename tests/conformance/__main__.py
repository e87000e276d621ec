"""Runs public test cases of a query language: `python -m tests.conformance LANGUAGE DIRECTORY`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main() -> int:
    if len(sys.argv) < 3:
        sys.stderr.write("usage: python -m tests.conformance LANGUAGE DIRECTORY [OPTION ...]\n")
        return 2
    language = import_module(f"tests.conformance.{sys.argv[1]}")
    return int(language.main(Path(sys.argv[2]), *sys.argv[3:]))


if __name__ == "__main__":
    sys.exit(main())
