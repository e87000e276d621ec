"""What runs in which role, and in what order it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.ops.metrics import create_registry
from frazil.serve import Role, everything, ingest, pipeline_alone

CLOSED = {door: {"enabled": False} for door in ("otlp", "loki", "prometheus")}
KAFKA = {"bootstrap_servers": ["localhost:9092"], "topics": ["orders"]}


@pytest.mark.parametrize(
    ("role", "settings", "parts"),
    [
        (everything, {}, ["log", "pipeline", "buffer", "telemetry", "query"]),
        (everything, {"kafka": KAFKA}, ["log", "pipeline", "buffer", "kafka", "telemetry", "query"]),
        (everything, {"pipeline": {"enabled": False}, **CLOSED}, ["log", "buffer", "query"]),
        (ingest, {"kafka": KAFKA, **CLOSED}, ["log", "buffer", "kafka"]),
        (ingest, {}, ["log", "buffer", "telemetry"]),
        (pipeline_alone, {"kafka": KAFKA}, ["pipeline"]),
    ],
)
def test_parts_start_before_those_that_need_them(
    role: Role, settings: dict[str, object], parts: list[str], tmp_path: Path
) -> None:
    """They stop in reverse."""
    config = Config.model_validate({"data_dir": tmp_path, **settings})
    assembly = role(config, create_registry())
    assert [part.name for part in assembly.parts] == parts
    assert list(assembly.behind) == (["pipeline"] if "pipeline" in parts and len(parts) > 1 else [])
    paths = [endpoint.path for endpoint in assembly.endpoints]
    assert ("/sql" in paths, "/hot/{topic}" in paths) == ("query" in parts, "buffer" in parts)


def test_no_doors_are_no_role(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"set kafka\.bootstrap_servers and kafka\.topics"):
        ingest(Config.model_validate({"data_dir": tmp_path, **CLOSED}), create_registry())
