"""Data that a DataLoader reads."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset

from tests.trainers.programs.model import BATCH, texts
from tests.trainers.programs.work import Work


class Rows(Dataset[torch.Tensor]):
    """Texts of one rank; the first of each batch takes a moment to read if there is `work`."""

    def __init__(self, count: int, work: Work | None = None, rank: int = 0) -> None:
        self._text, self._work = texts(rank, count), work

    def __len__(self) -> int:
        return len(self._text)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self._work is not None and index % BATCH == 0:
            self._work.data()
        return self._text[index]
