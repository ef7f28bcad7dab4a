"""holdfast keeps the state of AI agents."""
