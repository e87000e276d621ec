"""Answers TraceQL over spans.

`parse` and `validate` know the text of a query, `engine` the spans, and `api` what clients of Tempo ask for.
"""
