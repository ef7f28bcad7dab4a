"""A tracked dict or list that knows what was written to it."""
