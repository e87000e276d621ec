"""Tests of the HTTP API of Prometheus."""
