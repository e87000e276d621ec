"""Turns OTLP's logs, spans and metrics into rows of tables, and rows into messages again."""
