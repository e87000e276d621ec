"""Speaks Danube's protocol, so that its clients can produce to topics and subscribe to them."""
