"""Logs, spans and metrics of OpenTelemetry: as messages, and as rows of tables that keep all of them."""
