"""What runs in which role, and in what order it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.config.otlp import OtlpConfig
from frazil.errors import ConfigError
from frazil.ops.metrics import create_registry
from frazil.serve import Role, everything, ingest, pipeline_alone

KAFKA = {"bootstrap_servers": ["localhost:9092"], "topics": ["orders"]}


@pytest.mark.parametrize(
    ("role", "settings", "parts"),
    [
        (everything, {}, ["log", "pipeline", "buffer", "otlp", "query"]),
        (everything, {"kafka": KAFKA}, ["log", "pipeline", "buffer", "kafka", "otlp", "query"]),
        (everything, {"pipeline": {"enabled": False}, "otlp": {"enabled": False}}, ["log", "buffer", "query"]),
        (ingest, {"kafka": KAFKA, "otlp": {"enabled": False}}, ["log", "buffer", "kafka"]),
        (ingest, {}, ["log", "buffer", "otlp"]),
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
        ingest(Config(data_dir=tmp_path, otlp=OtlpConfig(enabled=False)), create_registry())
