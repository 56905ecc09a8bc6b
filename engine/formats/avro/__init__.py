"""Avro values, by Confluent's framing or a fixed schema: decoded into columns and encoded back byte for byte."""
