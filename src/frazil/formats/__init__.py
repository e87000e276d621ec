"""How records that came as bytes become rows with columns: the same functions wherever they are read."""
