"""Finds out what stops a topic, and carries out what a person decides about it."""
