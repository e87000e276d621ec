"""The write-ahead log: a directory of frame files per partition, written by one process and read by any."""
