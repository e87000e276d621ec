"""Inspects, verifies and repairs a log."""
