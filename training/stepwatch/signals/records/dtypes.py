"""Each record kind's structured dtype: the only place where a record's fields need numpy."""

from __future__ import annotations

import numpy as np

from .fields import BODIES, COMMON
from .vocabulary import Kind

DTYPES: dict[Kind, np.dtype[np.void]] = {
    kind: np.dtype([*COMMON, *body]) for kind, body in BODIES.items()
}
"""Each kind's structured dtype, little-endian and packed."""
