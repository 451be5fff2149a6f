"""`python -m stepwatch.cli` is the same as `stepwatch`."""

from __future__ import annotations

import sys

from .main import main

sys.exit(main())
