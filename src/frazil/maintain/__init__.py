"""Maintenance: what keeps tables and log small and quick, beside those who write and read them."""
