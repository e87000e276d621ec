"""The HTTP API of Loki for reading logs."""
