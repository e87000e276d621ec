"""Files become record batches, and batches are appended to a topic."""
