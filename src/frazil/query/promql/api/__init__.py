"""Answers the requests of Prometheus's HTTP API."""
