"""Maps batches of a topic to batches of its table. Rows that do not fit become misfits with the reason."""
