"""What takes records in and appends them to the log."""
