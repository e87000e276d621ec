"""The Spark data source `frazil`, with which any Spark job reads the rows of a topic."""
