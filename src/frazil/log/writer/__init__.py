"""The writer of a partition: append, group commit, sealing, and recovery when it is opened."""
