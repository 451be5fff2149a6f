"""An HTTP/1.1 client on `http.client`: bounded answers, kept connections, no redirects."""

from .address import Address
from .answer import MOST_BYTES, Answer
from .client import Client
from .errors import AnswerError, AnswerTimeout, ConnectError, CutOffError, HttpError

__all__ = [
    "MOST_BYTES",
    "Address",
    "Answer",
    "AnswerError",
    "AnswerTimeout",
    "Client",
    "ConnectError",
    "CutOffError",
    "HttpError",
]
