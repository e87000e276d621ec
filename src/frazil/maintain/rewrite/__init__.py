"""Writes data files anew from others: their rows in the table's order, less those that were deleted."""
