"""Topics: messages are produced into the log and read from any point, hot or cold."""
