"""Tests of PromQL."""
