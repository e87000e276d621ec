"""Reads the rows of a topic that are in its log and not yet in its table, and keeps them decoded."""
