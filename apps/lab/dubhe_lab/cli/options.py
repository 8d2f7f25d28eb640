"""Commands whose options are the fields of a settings class, and their output files."""

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, get_args

import typer

from dubhe_flwr.errors import SettingsError
from dubhe_lab.experiments.options import CommandSettings


def command(
    run: Callable[..., None],
    settings: type[CommandSettings],
    build: Callable[..., Any] | None = None,
    *,
    without: Collection[str] = (),
    shown: Mapping[str, str] | None = None,
) -> Callable[..., None]:
    """Return a function that `typer` can turn into a command, with an option for each field.

    `run` takes the settings first; its other arguments become options too. `build` makes the
    settings from the fields' values (default: ``settings.of``). Fields named in `without` get no
    option. `shown` gives the defaults to show in help where only `build` knows them.
    """
    fields = {f.name: f for f in settings.flat_fields() if f.name not in without}
    told = shown or {}

    def call(**given: Any) -> None:
        values = {name: _value(own, given.pop(name)) for name, own in fields.items()}
        run(
            (build or settings.of)(**values), **{name: _at_home(own) for name, own in given.items()}
        )

    call.__doc__ = run.__doc__
    _, *own_options = inspect.signature(run).parameters.values()
    own = [_parameter(name, own, told.get(name)) for name, own in fields.items()]
    call.__signature__ = inspect.Signature([*own, *own_options])  # type: ignore[attr-defined]
    return call


def _value(own: Field[Any], given: Any) -> Any:
    parse = own.metadata.get("parse")
    return parse(own.name, given) if parse is not None and given is not None else given


def _at_home(given: Any) -> Any:
    """Return a path with ~ replaced, which shells leave as it is in --out=~/results."""
    is_at_home = isinstance(given, Path) and given.parts[:1] == ("~",)
    return given.expanduser() if is_at_home else given


def _parameter(name: str, own: Field[Any], shown: str | None) -> inspect.Parameter:
    about, default = own.metadata, own.default
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    kind: Any = type(default)
    if default is None:
        wanted = next(each for each in get_args(own.type) if each is not type(None))
        kind = wanted if wanted in {int, float, str} else str
    if shown is not None:
        default = None
    spelt = name.replace("_", "-")
    spelling = f"--{spelt}/--no-{spelt}" if kind is bool else f"--{spelt}"
    told = shown or about.get("shown") or True
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(default, spelling, help=about["about"], show_default=told),
        annotation=kind if default is not None else kind | None,
    )


def writable_folder(folder: Path) -> Path:
    """Make the folder for results before the work begins.

    Raises `SettingsError` if it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except FileExistsError as error:
        raise SettingsError(f"{error.filename} is a file; pass the name of a folder.") from None
    except OSError as error:
        raise SettingsError(
            f"{folder} cannot be written to ({error.strerror}); pass a writable folder."
        ) from None


def writable_file(path: Path | None) -> None:
    """Make the folder of an output file before the work begins.

    Raises `SettingsError` if the file cannot be written.
    """
    if path is None:
        return
    if path.is_dir():
        raise SettingsError(f"{path} is a folder; pass the name of a file in it.")
    if not path.exists():
        writable_folder(path.parent)
    elif not os.access(path, os.W_OK):
        raise SettingsError(f"{path} cannot be written to; pass a writable file.")
