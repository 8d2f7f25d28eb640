"""Settings whose fields say what they are: checked in one place, and options of a command."""

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, Self, get_args, get_origin

from dubhe_flwr.errors import SettingsError


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

    `choices` are the values that it, or each of a tuple, can have (``Literal`` types say theirs),
    and `least` its smallest one. `parse` makes a value of the field's name and a text, if its type
    does not. The command is told `spelt`, the option's names; `shown`, what stands for None;
    `quick`, a smaller default.
    """
    about_it = {"about": about, "choices": choices, "least": least, "parse": parse, **told}
    return field(default=default, metadata=about_it)


def same(settings: type["CommandSettings"], name: str, **told: Any) -> Any:
    """Return a field that is like one of other settings, but for what is told."""
    (like,) = (own for own in settings.flat_fields() if own.name == name)
    return field(
        default=told.pop("default", like.default),
        metadata={**like.metadata, "choices": _choices(like), **told},
    )


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """Settings made of `option` fields and of other settings; no name is in two of them."""

    def __post_init__(self) -> None:
        """Check the own fields; the others' settings have checked theirs."""
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
        """Return settings from the names of all fields, the others' too; None is the default."""
        own: dict[str, Any] = {}
        for each in fields(cls):
            if (inner := _inner(each)) is not None:
                known = {f.name for f in inner.flat_fields()}
                own[each.name] = inner.of(**{n: given.pop(n) for n in known & given.keys()})
        return cls(**own, **{name: value for name, value in given.items() if value is not None})

    @classmethod
    def flat_fields(cls) -> list[Field[Any]]:
        """Return the fields, those of other settings in their place."""
        found: list[Field[Any]] = []
        for each in fields(cls):
            inner = _inner(each)
            found += [each] if inner is None else inner.flat_fields()
        return found

    def flat(self) -> dict[str, Any]:
        """Return all values by the names of their fields."""
        values: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            values |= value.flat() if isinstance(value, CommandSettings) else {each.name: value}
        return values


def names(_field: str, text: str) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def numbers_of(kind: Callable[[str], Any], example: str) -> Callable[[str, str], tuple[Any, ...]]:
    """Return what reads numbers that are separated by commas, or says which field needs some."""

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
    """Return the class of a field that holds other settings."""
    kind = own.type
    return kind if isinstance(kind, type) and issubclass(kind, CommandSettings) else None
