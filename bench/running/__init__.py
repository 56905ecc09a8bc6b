"""A daemon as it runs: memory, quiet, freshness, beside a broker."""
