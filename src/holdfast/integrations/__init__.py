"""holdfast inside other people's programs: one package for each framework, each behind an extra of its own.

Nothing is imported here. A package of this folder uses the public API and what its framework asks for, and nothing
else of holdfast knows that it exists.
"""
