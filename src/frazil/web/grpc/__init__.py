"""What all gRPC servers of Frazil share."""
