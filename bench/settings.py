"""Settings that benchmarks share."""

from __future__ import annotations

from typing import TypedDict

from frazil.config.sections.danube import DanubeConfig
from frazil.config.sections.loki import LokiConfig
from frazil.config.sections.otlp import OtlpConfig
from frazil.config.sections.prometheus import PrometheusConfig


class _Doors(TypedDict):
    otlp: OtlpConfig
    loki: LokiConfig
    prometheus: PrometheusConfig
    danube: DanubeConfig


NO_TELEMETRY = _Doors(
    otlp=OtlpConfig(enabled=False),
    loki=LokiConfig(enabled=False),
    prometheus=PrometheusConfig(enabled=False),
    danube=DanubeConfig(enabled=False),
)
"""Closes the doors whose ports are the same for all processes."""
