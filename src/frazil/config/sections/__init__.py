"""The settings of each part of Frazil, a module for each section of the file."""
