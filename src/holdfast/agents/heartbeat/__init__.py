"""Heartbeat: a daemon that runs one agent, beat after beat, over any number of lives.

heartbeat.py   the daemon: wake up, beat, save, sleep
agent.py       what an application writes: hooks for each phase of a beat
subsystems.py  the ten ready-made parts of an agent
state.py       what the heartbeat itself remembers, and the reports of waking up and of a life
rescue.py      a damaged store never keeps an agent from starting
pulse.py       the agent that runs where nobody wrote one
"""
