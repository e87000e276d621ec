"""Takes records in and appends them to the log."""
