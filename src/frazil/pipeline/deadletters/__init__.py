"""Dead letters: the table that holds them, and their replay."""
