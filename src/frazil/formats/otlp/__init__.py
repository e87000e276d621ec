"""Logs, spans and metrics of OpenTelemetry as rows of tables, and as messages again."""
