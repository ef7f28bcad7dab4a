"""What a backend must do: the records it keeps, the batch it commits, the questions it answers.

Nothing here does I/O. A backend implements `ports.Backend` and `ports.Reader` over the records of `records.py`;
`holdfast.testing` has the kit that proves it right.
"""
