"""Thalweg on Spark Structured Streaming: one stateful operator between the streams and the sink."""
