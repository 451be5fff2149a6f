"""The matrix of ranks and steps: the largest seconds in each cell, and the rank that has them."""

from .answer import matrix_document
from .rows import BY
from .views import MATRICES, SHARED_MATRICES
from .window import MOST_COLUMNS, MOST_ROWS, Window

__all__ = [
    "BY",
    "MATRICES",
    "MOST_COLUMNS",
    "MOST_ROWS",
    "SHARED_MATRICES",
    "Window",
    "matrix_document",
]
