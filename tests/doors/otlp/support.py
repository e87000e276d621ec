"""What tests beside this share."""

from __future__ import annotations

LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


STATUS = "grpc-status-details-bin"
