"""Recording: when and what a live agent saves."""
