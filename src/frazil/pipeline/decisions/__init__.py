"""What stops a topic, and what a person can decide about it."""
