"""JSON values, with a schema or with an inferred one: decoded into columns and written back byte for byte."""
