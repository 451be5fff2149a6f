"""The sources of the page: types, style and unit tests, and what the bundle weighs."""
