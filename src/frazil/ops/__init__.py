"""Tools that any process needs: logging, health, metrics, retries, circuit breakers and limits.

They know nothing of the log.
"""
