"""The local disk: durable files and folders, locks, and a number that processes share."""
