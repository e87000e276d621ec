"""Starts and stops Spark: Java, jars, settings, the JVM, the session and its Python processes."""
