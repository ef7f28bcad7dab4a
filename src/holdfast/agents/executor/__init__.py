"""The executor: plans that survive kill -9."""
