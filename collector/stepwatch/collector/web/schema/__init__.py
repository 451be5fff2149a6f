"""JSON types of the HTTP interface.

A type is a `TypedDict`; the docstring below a field describes it. `null` is an unknown value.
"""
