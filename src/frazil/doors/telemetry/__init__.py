"""The path of telemetry requests of all protocols: from the bytes of a request to an append, and back to an
answer."""
