"""`frazil topics` and its commands, most of which are modules of their own."""
