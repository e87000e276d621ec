"""The local disk: durable files and folders, locks, and the watermark that processes share."""
