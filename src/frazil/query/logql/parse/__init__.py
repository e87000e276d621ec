"""Turns the text of a query into a tree that can print itself."""
