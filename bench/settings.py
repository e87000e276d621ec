"""Settings that benchmarks share."""

from __future__ import annotations

from typing import TypedDict

from frazil.config.sections.danube import DanubeConfig
from frazil.config.sections.loki import LokiConfig
from frazil.config.sections.otlp import OtlpConfig
from frazil.config.sections.prometheus import PrometheusConfig
from frazil.config.sections.tempo import TempoConfig


class _Doors(TypedDict):
    otlp: OtlpConfig
    loki: LokiConfig
    prometheus: PrometheusConfig
    tempo: TempoConfig
    danube: DanubeConfig


NO_TELEMETRY = _Doors(
    otlp=OtlpConfig(enabled=False),
    loki=LokiConfig(enabled=False),
    prometheus=PrometheusConfig(enabled=False),
    tempo=TempoConfig(enabled=False),
    danube=DanubeConfig(enabled=False),
)
"""Closes the doors whose ports are the same for all processes."""
