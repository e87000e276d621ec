"""Runs queries in processes of their own, within limits of time and memory, in turns fair to all tenants."""
