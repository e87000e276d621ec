"""Lets clients follow lines as they come."""
