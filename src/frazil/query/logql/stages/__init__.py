"""Has the stages of log queries: each changes the rows of a frame."""
