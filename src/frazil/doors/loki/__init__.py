"""Receives what Promtail, Alloy, Fluent Bit and the like push to Loki, and appends it to the log."""
