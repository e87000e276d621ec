"""Reads the settings (`load`), defines their types (`model`, `sections`) and documents them (`reference`)."""
