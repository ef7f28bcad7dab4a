"""Finding a step in history: where something began to hold, who set a value, where a text came in."""
