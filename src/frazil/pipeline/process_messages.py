"""The messages between the pipeline's process and its parent: settings down, reports up, one per line."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from frazil.config.model import Config
from frazil.ops.health import Components, Health


@dataclass(frozen=True)
class PipelineReport:
    health: Components
    metrics: str | None = None
    """The metrics in the text format of Prometheus. They are None if they have not changed."""

    def to_line(self) -> str:
        health = {name: each.as_data() for name, each in self.health.items()}
        return json.dumps({"health": health, "metrics": self.metrics})

    @classmethod
    def from_line(cls, line: str) -> PipelineReport:
        data: dict[str, Any] = json.loads(line)
        return cls({name: Health(**each) for name, each in data["health"].items()}, data["metrics"])

    def with_metrics(self, metrics: str | None) -> PipelineReport:
        return replace(self, metrics=metrics)


FRESHNESS = "frazil_freshness_seconds"


def freshness(seconds: Mapping[str, float]) -> Metric:
    """Returns the freshness metric for these ages in seconds, by topic."""
    text = "Age of the oldest record that is not in its base table yet; 0 when all are."
    family = GaugeMetricFamily(FRESHNESS, text, labels=("topic",))
    for topic, age in seconds.items():
        family.add_metric([topic], age)
    return family


def settings_line(config: Config) -> bytes:
    return base64.b64encode(pickle.dumps(config)) + b"\n"


def settings_from(line: bytes) -> Config:
    config = pickle.loads(base64.b64decode(line))
    assert isinstance(config, Config)
    return config
