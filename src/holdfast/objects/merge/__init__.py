"""Two states that come from one, brought together: the three-way merge of values, and conflicts as data.

`states` reads the common ancestor and both sides whole, in their encoded form: equal bytes are equal values, and no
class has to be known. `merge` takes them apart together; `rows` says what becomes of the items of lists, `order` how
things stand that have a name. What cannot be decided is a `MergeConflict`; `resolve` asks the caller. Nothing is
ever dropped because it was in the way.
"""
