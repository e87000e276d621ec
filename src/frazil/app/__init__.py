"""The running process: its parts, its roles, and how they start and stop."""
