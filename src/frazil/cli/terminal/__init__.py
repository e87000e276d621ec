"""What commands share: addresses, names, output, progress and signals."""
