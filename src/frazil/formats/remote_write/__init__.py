"""Turns requests of Prometheus's remote write, 1.0 and 2.0, into rows of the table `metrics`."""
