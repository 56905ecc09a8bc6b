"""Parquet files as bytes: footers, page indexes, single pages, checksums of every part, and write settings."""
