"""The Loki door: what Promtail, Alloy, Fluent Bit and their like push, into the log."""
