"""Runs public test cases of the query languages against Frazil."""
