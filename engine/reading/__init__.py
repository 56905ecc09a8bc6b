"""Reads by offset and by time: files found, pages read, rows turned back into Kafka's batches."""
