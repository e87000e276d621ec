"""Batches of a topic become batches of its table, or misfits with the reason."""
