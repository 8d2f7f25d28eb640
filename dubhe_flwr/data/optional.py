"""Packages that the base install does without."""

from importlib import import_module
from typing import Any

from dubhe_flwr.errors import DataError

__all__ = ["optional"]


def optional(dataset: str, module: str) -> Any:
    """Import a module that a data set needs.

    Parameters
    ----------
    dataset : str
        Name of the data set, for the message.
    module : str
        As in an import statement.

    Raises
    ------
    DataError
        If it is not installed; the message says how to install it.

    Examples
    --------
    >>> optional("digits", "abacus.beads")
    Traceback (most recent call last):
    dubhe_flwr.errors.DataError: Data set 'digits' needs abacus; install it with \
`pip install 'dubhe-flwr[torch]'`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(
            f"Data set {dataset!r} needs {module.partition('.')[0]}; install it with "
            "`pip install 'dubhe-flwr[torch]'`."
        ) from error
