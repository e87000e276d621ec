"""Reads dead letters and replays them into the base table."""
