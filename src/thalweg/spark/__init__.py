"""Thalweg on Spark Structured Streaming: finding Java, and a session to run in."""
