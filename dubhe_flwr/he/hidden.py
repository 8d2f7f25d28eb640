"""The base class of objects that hold secrets in memory."""

from typing import NoReturn


class Hidden:
    """Hides its fields in `repr`, and refuses to be pickled or copied."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Secrets are never pickled or copied: keep only their bytes, and only locally."
        )
