"""Receives logs, traces and metrics of OpenTelemetry over HTTP and gRPC, and appends them to the log."""

import os

# Processes that this one starts run other programs. If gRPC handled the fork, it could break them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
