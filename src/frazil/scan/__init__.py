"""The rows of a topic by offsets, from its table and its log, each exactly once."""
