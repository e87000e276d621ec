"""Modules that commands share: addresses, access to the log, output, progress and signals."""
