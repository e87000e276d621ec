"""The OTLP door: logs, traces and metrics of OpenTelemetry, over HTTP and gRPC, into the log."""

import os

# What this process starts are other programs. If gRPC took part in the fork before, it could break them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
