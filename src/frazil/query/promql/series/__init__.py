"""Holds series: their labels as columns, their samples as arrays, and the seam to storage."""
