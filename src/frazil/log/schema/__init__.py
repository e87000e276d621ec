"""The schema of a topic: its columns, how it may evolve, and how batches are adapted to it."""
