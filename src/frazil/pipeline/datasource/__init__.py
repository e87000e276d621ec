"""The Spark data source `frazil`: a topic's rows in anybody's job."""
