"""The door for Prometheus: samples that come by remote write, into the log."""
