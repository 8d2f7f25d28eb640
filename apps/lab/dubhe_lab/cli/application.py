"""The application `dubhe`: its commands, its welcome text, and how it reports errors."""

import sys
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated, Any, Final

import click
import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from dubhe_flwr.errors import DubheError
from dubhe_lab.cli import compare, study

_WELCOME = """\
[bold]Dubhe[/bold] selects the clients that train in each round of federated learning, so
that their pooled data is close to uniform. The server sees no client's label
counts.

Start by comparing random selection, Dubhe and a greedy oracle. This trains a
small model on handwritten digits and takes a minute or two:

    [bold]dubhe compare[/bold]

Or compare the selected data only, in about a minute and without PyTorch:

    [bold]dubhe study[/bold]

Add [bold]--help[/bold] to a command to see its options. To add Dubhe to your own app, read
docs/tutorial/add_dubhe.md."""


_FURTHER: Final = {"paper": "dubhe_lab.paper.commands", "bench": "dubhe_lab.bench.commands"}
"""Command groups, and the modules that hold them as `app`."""


class _Dubhe(TyperGroup):
    """Imports a command group on first use, so that `dubhe compare` starts faster."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*super().list_commands(context), *_FURTHER]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in _FURTHER:
            command = typer.main.get_command(import_module(_FURTHER[name]).app)
            command.name = name
            return command
        return super().get_command(context, name)


def new_application(**given: Any) -> typer.Typer:
    """Return an application without commands, whose help and errors look like `dubhe`'s."""
    return typer.Typer(
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        suggest_commands=False,  # Click already does
        **given,
    )


app = new_application(cls=_Dubhe)


@app.callback(invoke_without_command=True, epilog="Example: [bold]dubhe compare[/bold]")
def start(
    context: typer.Context,
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.")
    ] = False,
) -> None:
    """Private, unbiased client selection for Flower."""
    if show_version:
        typer.echo(f"dubhe-flwr {version('dubhe-flwr')}")
    elif context.invoked_subcommand is None:
        Console().print(_WELCOME, highlight=False)


app.command("compare", epilog=compare.EPILOG)(compare.compare)
app.command("study", epilog=study.EPILOG)(study.study)


def main() -> None:
    """Run `dubhe`; show this package's errors as one sentence and exit with code 2."""
    if isinstance(sys.stdout, TextIOWrapper):  # it may lack letters that a table's names have
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except DubheError as error:
        sentence = str(error)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in {"torch", "torchvision", "sklearn", "PIL"}:
            raise
        sentence = f"{package} is missing; run `pip install './apps/lab[torch]'` in a clone."
    Console(stderr=True).print(f"[red]{escape(sentence)}[/red]", highlight=False, soft_wrap=True)
    raise SystemExit(2)
