"""Finding a step in the history of a branch: where something began to hold, who set a value, which states have a text.

All of them walk the way that `log` shows, and read as little of the states as they can: rows come first and cost
nothing, states with the same root are the same state, and of a state only the part that is asked about is read.
"""
