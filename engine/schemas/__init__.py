"""Where writers' schemas come from: registries, folders, and a cache of both on disk."""
