"""Holds what all gRPC servers of Frazil share."""
