"""Sends many damaged inputs a second through the decoders themselves, in a process whose death fails the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.registry import RegistryServer

PATIENCE_SECONDS = 1800.0


def survived(module: str, *arguments: object) -> dict[str, int]:
    """Runs a fuzzing module, and returns what became of its inputs."""
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.fuzz.{module}", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    if ended.returncode:
        how = signal.Signals(-ended.returncode).name if ended.returncode < 0 else f"exit code {ended.returncode}"
        pytest.fail(f"{how}: {ended.stderr[-4000:]}")
    counts: dict[str, int] = json.loads(ended.stdout)
    print(f"{module}: {counts}")  # noqa: T201 - shown with -s, and when it fails
    return counts


def check_telemetry(seed: int, cases: int) -> None:
    counts = survived("telemetry_decoding", seed, cases)
    assert counts["cases"] >= cases
    for name in ("accepted", "stored as they came"):
        assert counts[name] > cases // 100


def check_files(seed: int, cases: int, folder: Path) -> None:
    counts = survived("load_files", seed, cases, folder)
    for kind in ("parquet", "arrow"):
        assert counts[f"{kind} refused"] > cases // 100
        assert counts[f"{kind} read"] > cases // 100
    assert not [name for name in counts if "without its name" in name]


def check_payloads(seed: int, cases: int, folder: Path, registry: RegistryServer) -> None:
    counts = survived("kafka_decoding", seed, cases, folder, registry.endpoint)
    for kind in ("json", "avro", "protobuf", "json_schema"):
        assert counts[f"{kind} rows"] > cases // 100
        assert counts[f"{kind} dead letters"] > cases // 100
    assert counts["raw rows"] > cases // 100
    assert counts["raw dead letters"] == 0


def test_telemetry(seed: int) -> None:
    check_telemetry(seed, 20_000)


def test_files(seed: int, tmp_path: Path) -> None:
    check_files(seed, 2_000, tmp_path)


def test_payloads(seed: int, tmp_path: Path, registry: RegistryServer) -> None:
    check_payloads(seed, 3_000, tmp_path, registry)


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(4))
def test_telemetry_for_minutes(seed: int, turn: int) -> None:
    check_telemetry(seed + turn, 300_000)


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(2))
def test_files_for_minutes(seed: int, turn: int, tmp_path: Path) -> None:
    check_files(seed + turn, 60_000, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(2))
def test_payloads_for_minutes(seed: int, turn: int, tmp_path: Path, registry: RegistryServer) -> None:
    check_payloads(seed + turn, 100_000, tmp_path, registry)
