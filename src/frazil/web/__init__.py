"""Holds what all HTTP and gRPC servers of Frazil share."""
