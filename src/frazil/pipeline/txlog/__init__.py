"""The transaction log: it records what the pipeline does, for recovery after a crash and for people."""
