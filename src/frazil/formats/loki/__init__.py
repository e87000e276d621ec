"""Loki's push as rows of the table `logs`."""
