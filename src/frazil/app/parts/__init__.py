"""One module for each part of a running process. A part is started, asked for its health, and stopped."""
