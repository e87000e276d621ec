"""Dispatches on the language: each has a module here with a `main`."""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    module = importlib.import_module(f"tests.conformance.{sys.argv[1]}")
    sys.exit(module.main(*sys.argv[2:]))
