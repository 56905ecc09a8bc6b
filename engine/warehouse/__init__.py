"""Where table files lie: a local directory or an object store, written so that a file is whole or absent."""
