"""Says which rows a scan is to return, as one tree that is translated for files, Arrow and Polars."""
