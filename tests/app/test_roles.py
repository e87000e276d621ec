"""Tests which parts each role has, and in what order they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.app.roles import Role, everything, ingest, maintenance_alone, pipeline_alone, query_alone
from frazil.config.model import Config
from frazil.ops.metrics import create_registry

CLOSED = {door: {"enabled": False} for door in ("otlp", "loki", "prometheus", "tempo")}
KAFKA = {"bootstrap_servers": ["localhost:9092"], "topics": ["orders"]}


@pytest.mark.parametrize(
    ("role", "settings", "parts"),
    [
        (everything, {}, ["log", "pipeline", "buffer", "telemetry", "topics", "query", "tempo grpc"]),
        (
            everything,
            {"kafka": KAFKA},
            ["log", "pipeline", "buffer", "kafka", "telemetry", "topics", "query", "tempo grpc"],
        ),
        (everything, {"pipeline": {"enabled": False}, **CLOSED}, ["log", "buffer", "topics", "query"]),
        (ingest, {"kafka": KAFKA, **CLOSED}, ["log", "buffer", "kafka", "topics"]),
        (ingest, {}, ["log", "buffer", "telemetry", "topics"]),
        (pipeline_alone, {"kafka": KAFKA}, ["pipeline"]),
        (query_alone, {"kafka": KAFKA}, ["query", "tempo grpc"]),
        (query_alone, CLOSED, ["query"]),
        (maintenance_alone, {"maintenance": {"enabled": False}}, ["maintenance"]),
    ],
)
def test_parts_start_before_those_that_need_them(
    role: Role, settings: dict[str, object], parts: list[str], tmp_path: Path
) -> None:
    """Parts stop in reverse order."""
    config = Config.model_validate({"data_dir": tmp_path, **settings})
    assembly = role(config, create_registry())
    assert [part.name for part in assembly.parts] == parts
    assert list(assembly.optional) == (["pipeline"] if "pipeline" in parts and len(parts) > 1 else [])
    paths = [endpoint.path for endpoint in assembly.endpoints]
    assert ("/topics/{name}" in paths) == ("topics" in parts)
    assert ("/sql" in paths, "/hot/{topic}" in paths) == ("query" in parts, "buffer" in parts)
