"""The schema registry's client, its cache on disk, and the wire format of payloads."""
