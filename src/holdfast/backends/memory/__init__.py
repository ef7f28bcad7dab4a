"""A store in this process's memory: for tests, for notebooks, and as the shortest complete backend to read.

moment.py       everything the store holds at one time, and what a batch makes of it
reader.py       questions about one moment
adopting.py     taking over rows of another store
collecting.py   removing chunks that no checkpoint needs
backend.py      the backend: commits, readers and their moments
"""

from holdfast.backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
