"""Danube's protocol: its clients produce to topics and subscribe to them."""
