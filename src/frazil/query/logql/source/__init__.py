"""Gives the rows of the topic `logs` to the language, with labels by Loki's rules."""
