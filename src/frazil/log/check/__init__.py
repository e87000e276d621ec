"""Looking into a log, checking all of it, and saving what can be saved."""
