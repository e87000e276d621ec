"""Settings of servers that listen on a port."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from frazil.config.sections.section import Section, setting_problem

Port = Annotated[int, Field(ge=0, le=65_535)]
MAX_CONNECTIONS = 2000
Connections = Annotated[int, Field(gt=0, le=100_000)]
CONNECTIONS_TEXT = "Most connections at a time; more are closed."


class TlsConfig(Section):
    """Certificate and key, as PEM files; without them connections are not encrypted."""

    cert: Path | None = Field(None, description="File with the certificate, and those that it was signed with.")
    key: Path | None = Field(None, description="File with its key.")

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        if (self.cert is None) != (self.key is None):
            present, absent = ("cert", "key") if self.key is None else ("key", "cert")
            raise setting_problem(f"needs {absent} too", present)
        return self


class EndpointConfig(Section):
    """Sets where a protocol is served."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(0, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
