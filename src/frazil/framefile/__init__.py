"""A folder of frame files: the WAL, the transaction log and the acknowledgements are stored in such folders."""
