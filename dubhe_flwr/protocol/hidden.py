"""The base of what holds secrets in memory."""

from typing import NoReturn


class Hidden:
    """Shows nothing of itself and is never pickled or copied."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A session is never pickled or copied: keep its to_fields() locally.")
