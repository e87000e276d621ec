"""Answers LogQL: a query becomes a tree, the tree a plan, and the plan reads blocks of log lines."""
