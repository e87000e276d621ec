"""Runs other projects' test scripts against Frazil: `python -m tests.conformance LANGUAGE DIRECTORY`."""
