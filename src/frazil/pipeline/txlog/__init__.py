"""The transaction log: what the pipeline did, so that it can be finished after a crash and read by people."""
