"""Topics over HTTP: produce, read, follow, create and delete."""
