"""What the doors for telemetry share: from the bytes of a request to an append, and back to an answer."""
