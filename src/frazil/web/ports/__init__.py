"""Has the named ports of a process: parts contribute endpoints to them, and one place opens the servers."""
