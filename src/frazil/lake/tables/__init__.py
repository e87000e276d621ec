"""The tables of a topic: their names, their creation, and whether they are the ones that Frazil made."""
