"""Benchmarks: holdfast beside the savers people use today, in one run. `python -m bench --help`."""
