"""Benchmarks. Each figure is a ratio to what the same machine can do, measured in the same run."""
