"""The OTLP door: logs, traces and metrics of OpenTelemetry, over HTTP and gRPC, into the log."""
