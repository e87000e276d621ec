"""The parts of a running Frazil, a module for each."""
