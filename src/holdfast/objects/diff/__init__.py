"""The difference of two states: typed changes by path, found by reading only what differs.

`compare` walks two states side by side. `sequences` drops what has the same hash on both sides before anything of it is
read; `alignment` finds what two sequences have in common, `pairs` which item became which. Values are looked at as they
are encoded (`encoded_value`), one level at a time: equal bytes are equal values, types included, and a class that
nobody registered is no obstacle. `diff` is what comes out of it, for people and for programs.
"""
