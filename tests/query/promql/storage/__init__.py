"""Tests of where PromQL finds its samples."""
