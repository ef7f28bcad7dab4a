"""Settings: what can be configured, and where each value comes from."""
