"""The heartbeat: an agent that lives in beats, saves itself every so many, and wakes up where it was.

`daemon.py` has the life of one (wake up, beat, sleep), `agent.py` what an application writes, `subsystems/` the ten
parts of the mind that a snapshot holds, `runtime.py` what the daemon itself remembers.
"""
