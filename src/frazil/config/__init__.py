"""Settings: their types (`model`), how they are read (`load`), how they are told (`reference`)."""
