"""`frazil topics` and its commands."""
