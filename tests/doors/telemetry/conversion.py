"""What tests beside this share."""

from __future__ import annotations

from frazil.config.sections.telemetry import TelemetryConfig
from frazil.doors.loki.push import PUSH
from frazil.doors.telemetry.conversion import RequestConverter
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.tenant_limits import TenantLimits
from frazil.ops.metrics import create_registry
from tests.log.support import ManualClock


def converter() -> RequestConverter:
    config, clock = TelemetryConfig(), ManualClock()
    return RequestConverter(
        PUSH, config, TenantLimits(config, clock.monotonic), TelemetryMetrics(create_registry()), clock, 64 << 20
    )
