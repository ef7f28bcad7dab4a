"""Notebook: a debugging memory of hypotheses, beliefs, gaps, experiments, checks and code that survives compaction."""
