"""Protobuf values by a message type of a schema: decoded into columns and encoded back byte for byte."""
