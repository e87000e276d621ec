"""Appends that are stored as the client sent them, and become rows when somebody reads them."""
