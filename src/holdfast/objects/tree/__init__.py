"""Encoded states as trees of chunks, and back."""
