"""Recording: when and what a live agent saves.

recorder.py        Recorder, and the core that it shares with AsyncRecorder (async_recorder.py)
sources.py         the live parts of an agent, captured and restored together
triggers.py        when to save
resume.py          what is stored for a recorder, going on from it, and the report of that
events.py, bus.py  what happened, and who hears of it
signals.py         SIGTERM and SIGINT end in a last checkpoint
"""
