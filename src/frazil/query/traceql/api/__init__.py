"""Answers Tempo's and Jaeger's requests over HTTP."""
