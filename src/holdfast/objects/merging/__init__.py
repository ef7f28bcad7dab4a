"""Two states that come from one, brought together: the three-way merge of values, and conflicts as data.

`values` walks the common ancestor and both sides at once, in their encoded form, as `objects.diffing` does: equal bytes
are equal values, and what has the same hash on two sides is not read. `rows` says what becomes of the items of lists,
`outcomes` which of their changes touch, `texts` what becomes of lines. What cannot be decided is a `MergeConflict`;
`resolving` asks the caller, by `patterns`. Nothing is ever dropped because it was in the way.
"""
