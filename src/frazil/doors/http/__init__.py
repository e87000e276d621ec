"""Serves topics over HTTP: clients produce, read, follow, create and delete."""
