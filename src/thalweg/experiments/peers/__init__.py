"""Others that compute the same join: what the engine is measured against."""
