"""Reading topics as tables: what is in the lake and what is still in the log, together and at one cut."""
