"""Formats around formats: Debezium's change events and Connect's JSON with a schema in each record."""
