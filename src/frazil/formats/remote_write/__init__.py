"""Prometheus's remote write, 1.0 and 2.0, as rows of the table `metrics`."""
