"""Receives samples by Prometheus's remote write, and appends them to the log."""
