"""What keeps a running Frazil observable and orderly: logging, health, metrics, HTTP, start and stop."""
