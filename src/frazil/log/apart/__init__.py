"""Work that is done in another process, because it would hold Python's lock in this one for long."""
