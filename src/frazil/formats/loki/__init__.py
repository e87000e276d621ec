"""Turns Loki's push requests into rows of the table `logs`."""
