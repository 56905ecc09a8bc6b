"""What may change in a schema, and which columns the fields of older schemas keep."""
