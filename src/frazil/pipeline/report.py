"""What the pipeline's process and its parent say to each other."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from frazil.config.model import Config
from frazil.ops.health import Health


@dataclass(frozen=True)
class Report:
    health: Mapping[str, Health]
    metrics: str | None = None
    """In the text format of Prometheus; None when there is nothing new."""

    def to_line(self) -> str:
        health = {name: [each.status, each.reason] for name, each in self.health.items()}
        return json.dumps({"health": health, "metrics": self.metrics})

    @classmethod
    def from_line(cls, line: str) -> Report:
        data: dict[str, Any] = json.loads(line)
        return cls(
            {name: Health(status, reason) for name, (status, reason) in data["health"].items()}, data["metrics"]
        )

    def with_metrics(self, metrics: str | None) -> Report:
        return replace(self, metrics=metrics)


def settings_line(config: Config) -> bytes:
    return base64.b64encode(pickle.dumps(config)) + b"\n"


def settings_from(line: bytes) -> Config:
    config = pickle.loads(base64.b64decode(line))
    assert isinstance(config, Config)
    return config
