"""The tables of a topic: names, creation, opening, adoption, and the check that they are still Frazil's."""
