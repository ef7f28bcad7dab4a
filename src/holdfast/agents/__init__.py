"""Agents: programs that save themselves, and go on where they were."""
