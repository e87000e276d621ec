"""Turns the text of a query into a tree that knows its positions and prints itself back."""
