"""Makes the scanner of a query process."""

from __future__ import annotations

from frazil.config.model import Config
from frazil.engine.tail_transfer import TailsOf
from frazil.scan.interface import Scanner


def open_scanner(config: Config, tails_of: TailsOf) -> Scanner:
    raise NotImplementedError
