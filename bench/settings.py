"""Settings that benchmarks share."""

from __future__ import annotations

from typing import TypedDict

from frazil.config.danube import DanubeConfig
from frazil.config.loki import LokiConfig
from frazil.config.otlp import OtlpConfig
from frazil.config.prometheus import PrometheusConfig


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
"""Closes the doors whose ports are the same for all."""
