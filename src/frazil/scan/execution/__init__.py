"""Runs scans: takes a cut, reads units, brings rows into order, and stops when no other rows can matter."""
