"""The Kafka door: topics of a Kafka cluster become topics of the log, exactly once."""
