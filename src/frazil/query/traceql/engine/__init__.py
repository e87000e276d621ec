"""Evaluates queries over spans as arrays. It knows nothing of HTTP, nor of where spans come from."""
