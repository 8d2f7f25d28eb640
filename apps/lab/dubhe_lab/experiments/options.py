"""Settings classes whose fields carry their own help and checks, and become command-line options.

A field is declared with `option`, or taken over from another class with `same`. `CommandSettings`
checks the values, and `cli.options.command` makes a command from the fields.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields
from inspect import getdoc
from typing import Any, Literal, NamedTuple, Self, get_args, get_origin

from dubhe_flwr.errors import SettingsError


class Parameter(NamedTuple):
    """An entry of a docstring's "Parameters" section; one entry can name several parameters."""

    names: tuple[str, ...]
    kind: str
    meaning: str


def parameters_of(documented: type) -> list[Parameter]:
    """Return the parameters that a class's NumPy docstring describes.

    Examples
    --------
    >>> from dubhe_flwr.protocol.settings import Settings
    >>> parameters_of(Settings)[0]  # doctest: +ELLIPSIS
    Parameter(names=('num_participants',), kind='int', meaning='``K``: number of clients ...
    """
    _, _, rest = (getdoc(documented) or "").partition("Parameters\n----------\n")
    entries = re.split(r"\n(?=\S)", re.split(r"\n\n\w+\n-+\n", rest)[0].strip())
    found = []
    for entry in entries:
        heading, _, meaning = entry.partition("\n")
        names, _, kind = heading.partition(" : ")
        found.append(Parameter(tuple(names.split(", ")), kind, " ".join(meaning.split())))
    return found


def option(
    default: Any,
    about: str,
    *,
    choices: Sequence[str] = (),
    least: int | None = None,
    parse: Callable[[str, str], Any] | None = None,
    **told: Any,
) -> Any:
    """Return a field of `CommandSettings`.

    `choices` are the allowed values of the field, or of each element of a tuple; ``Literal`` types
    bring their own. `least` is the smallest allowed value. `parse` makes a value from the field's
    name and a text, for types that the command line cannot parse. More keywords describe the
    command's option: `shown` the default in help instead of None, and `quick` the default with
    --quick.
    """
    about_it = {"about": about, "choices": choices, "least": least, "parse": parse, **told}
    return field(default=default, metadata=about_it)


def same(owner: type[Any], name: str, *, before: str = "", after: str = "", **told: Any) -> Any:
    """Return a field like another dataclass's, with the given changes.

    Default and help come from the owner, so that they are written only once. If the owner belongs
    to `dubhe_flwr`, the help comes from its docstring, and the owner itself checks the values.
    `before` and `after` extend that help.
    """
    if issubclass(owner, CommandSettings):
        (like,) = (own for own in owner.flat_fields() if own.name == name)
        told = {**like.metadata, **told}
    else:
        (like,) = (own for own in fields(owner) if own.name == name)
        (_, kind, meaning) = next(own for own in parameters_of(owner) if name in own.names)
        told["about"] = before + meaning.replace("`", "") + after
        stands_for = re.search(r"\(default: (.+)\)$", kind)
        if stands_for and told.get("default", like.default) is None:
            told.setdefault("shown", stands_for[1].replace("`", ""))
    return option(**{"default": like.default, **told})


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """Settings made of `option` fields and nested settings; no two share a field name."""

    def __post_init__(self) -> None:
        """Check the fields; nested settings have already checked theirs."""
        for own in fields(self):
            value, choices = getattr(self, own.name), _choices(own)
            least = own.metadata.get("least")
            for each in value if isinstance(value, tuple) else (value,):
                if choices and each not in choices:
                    raise SettingsError(
                        f"{own.name}={each!r} is unknown; choose one of {', '.join(choices)}."
                    )
            if least is not None and value is not None and value < least:
                raise SettingsError(f"{own.name}={value} must be at least {least}.")

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Return settings from flat names, nested ones included."""
        own: dict[str, Any] = {}
        for each in fields(cls):
            if (inner := _inner(each)) is not None:
                known = {f.name for f in inner.flat_fields()}
                own[each.name] = inner.of(**{n: given.pop(n) for n in known & given.keys()})
        return cls(**own, **given)

    @classmethod
    def flat_fields(cls) -> list[Field[Any]]:
        """Return all fields, with nested settings replaced by their own fields."""
        found: list[Field[Any]] = []
        for each in fields(cls):
            inner = _inner(each)
            found += [each] if inner is None else inner.flat_fields()
        return found

    def flat(self) -> dict[str, Any]:
        """Return all values by field name, nested ones included."""
        values: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            values |= value.flat() if isinstance(value, CommandSettings) else {each.name: value}
        return values


def names(_field: str, text: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def numbers_of(kind: Callable[[str], Any], example: str) -> Callable[[str, str], tuple[Any, ...]]:
    """Return a parser of numbers separated by commas, which raises `SettingsError`."""

    def parse(name: str, text: str) -> tuple[Any, ...]:
        try:
            return tuple(kind(part) for part in text.split(","))
        except ValueError:
            raise SettingsError(
                f"{name}={text!r} must be numbers separated by commas, as in {example}."
            ) from None

    return parse


numbers = numbers_of(int, "1,2,10")


def _choices(own: Field[Any]) -> Sequence[str]:
    is_literal = get_origin(own.type) is Literal
    return get_args(own.type) if is_literal else own.metadata.get("choices", ())


def _inner(own: Field[Any]) -> type[CommandSettings] | None:
    """Return the class of nested settings, or None for a plain field."""
    kind = own.type
    return kind if isinstance(kind, type) and issubclass(kind, CommandSettings) else None
