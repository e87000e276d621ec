"""Folders of frame files, which the WAL, the transaction log and acknowledgements are."""
