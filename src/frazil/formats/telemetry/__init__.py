"""Helpers for turning requests of all telemetry protocols into rows, and rows into messages again."""
