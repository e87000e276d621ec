"""The options that may stand before or after any command, as commands receive them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from frazil.config.load import LoadedConfig


@dataclass(frozen=True)
class Context:
    config_path: Path | None = None

    def load(self) -> LoadedConfig:
        from frazil.config.load import load_config

        return load_config(self.config_path)


GivenContext = Annotated[Context, Parameter(parse=False)]
"""This is the type of a command's keyword-only `context` parameter, which `app` fills in."""
