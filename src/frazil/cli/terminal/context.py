"""What every command can ask for: the options that stand before or after any command."""

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
"""Type of a command's `context` parameter (keyword-only); `app` fills it in."""
