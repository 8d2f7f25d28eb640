"""Settings classes whose fields carry their own help and checks, and become command-line options.

A field is declared with `option`, copied from other settings with `same`, or taken over from a
class of `dubhe_flwr` with `options_of`, which reads default and help from that class's docstring.
`CommandSettings` checks the values, and `cli.options.command` makes a command from the fields.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import getdoc
from types import NoneType
from typing import Any, Literal, NamedTuple, Self, TypeVar, get_args, get_origin

from dubhe_flwr.errors import SettingsError

SettingsT = TypeVar("SettingsT", bound="CommandSettings")


class Parameter(NamedTuple):
    """An entry of a docstring's "Parameters" section; one entry can name several parameters."""

    names: tuple[str, ...]
    kind: str
    meaning: str


def parameters_of(documented: type) -> list[Parameter]:
    """Return the parameters that a class's NumPy docstring describes.

    Examples
    --------
    >>> from dubhe_flwr.protocol import Settings
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
    command's option: `spelt` its names, `shown` the default in help instead of None, and `quick`
    the default with --quick.
    """
    about_it = {"about": about, "choices": choices, "least": least, "parse": parse, **told}
    return field(default=default, metadata=about_it)


def same(settings: type["CommandSettings"], name: str, **told: Any) -> Any:
    """Return a copy of another settings class's field, with the given changes."""
    (like,) = (own for own in settings.flat_fields() if own.name == name)
    return field(
        default=told.pop("default", like.default),
        metadata={**like.metadata, "choices": _choices(like), **told},
    )


def options_of(
    owner: type,
    names: Sequence[str],
    *,
    kinds: Mapping[str, Mapping[str, type[Any]]],
    without: Sequence[str] = (),
    **told: Mapping[str, Any],
) -> Callable[[type[SettingsT]], type[SettingsT]]:
    """Return a decorator that gives a settings class the named fields of another dataclass.

    Types, defaults and help come from the owner, except where `told` overrides them; the owner also
    keeps the checks. A field in `kinds` takes the name of a kind, by default the first. The fields
    of all its kinds follow it, except for those in `without`.
    """

    def make(settings: type[SettingsT]) -> type[SettingsT]:
        for name in names:
            of_name, own_told = kinds.get(name, {}), dict(told.get(name, {}))
            if of_name:
                own_told |= {"kind": str, "default": next(iter(of_name)), "choices": tuple(of_name)}
                own_told |= {"after": f" One of {', '.join(of_name)}."}
            _add(settings, owner, name, **own_told)
            for kind, its_owner in of_name.items():
                for own in fields(its_owner):
                    if own.name in without:
                        continue
                    before = f"({kind}) "
                    _add(settings, its_owner, own.name, before=before, **told.get(own.name, {}))
        return dataclass(frozen=True, kw_only=True)(settings)

    return make


def _add(
    settings: type,
    owner: type,
    name: str,
    *,
    kind: Any = None,
    before: str = "",
    after: str = "",
    **told: Any,
) -> None:
    """Add a field like the owner's, with help from the owner's docstring."""
    like: Any = next(own for own in fields(owner) if own.name == name)
    (_, described, meaning) = next(own for own in parameters_of(owner) if name in own.names)
    default = told.pop("default", None if like.default is MISSING else like.default)
    stands_for = re.search(r"\(default: (.+)\)$", described)
    if default is None and stands_for:
        told.setdefault("shown", stands_for[1].replace("`", ""))
    if kind is None:
        is_optional = default is not None or NoneType in get_args(like.type)
        kind = like.type if is_optional else like.type | None
    settings.__annotations__[name] = kind
    about = before + meaning.replace("`", "") + after
    setattr(settings, name, option(default, about, **told))


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
        """Return settings from flat names, nested ones included; None means the default."""
        own: dict[str, Any] = {}
        for each in fields(cls):
            if (inner := _inner(each)) is not None:
                known = {f.name for f in inner.flat_fields()}
                own[each.name] = inner.of(**{n: given.pop(n) for n in known & given.keys()})
        return cls(**own, **{name: value for name, value in given.items() if value is not None})

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
