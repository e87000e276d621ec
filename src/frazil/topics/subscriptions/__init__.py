"""Subscriptions: who has acknowledged what of a topic, durable, and who is handed what next."""
