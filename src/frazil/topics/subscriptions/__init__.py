"""Remembers durably what each subscription has acknowledged, and decides which consumer gets which message next."""
