"""The commit of data files and offsets in one atomic update, exactly once."""
