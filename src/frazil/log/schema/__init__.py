"""The schema of a topic: its columns, how it may grow, and how batches are made to fit it."""
