"""Answers PromQL over series that somebody else reads: text to tree, tree to matrices, no HTTP."""
