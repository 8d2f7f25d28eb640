"""`python apps/benchmarks`: what encryption, the protocol and the engines cost."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from bench.results import BenchResults
from dubhe_flwr.cli import run_application
from dubhe_flwr.cli.arguments import numbers, writable_file

__all__ = ["app", "main"]

_EPILOG: Final = (
    "Example: [bold]python apps/benchmarks {name} --json results/{name}.json "
    "--markdown results/{name}.md[/bold]"
)


@dataclass(frozen=True)
class _Number:
    """A number that is smaller with --quick, unless it is given."""

    usual: int
    quick: int

    def option(self, help_text: str) -> Any:
        usual = f"{self.usual}, or {self.quick} with --quick"
        return typer.Option(help=help_text, show_default=usual, min=1)

    def of(self, given: int | None, *, quick: bool) -> int:
        if given is not None:
            return given
        return self.quick if quick else self.usual


_KEY_BITS: Final = _Number(2048, 512)
_TIMES: Final = _Number(10, 2)
_NODES: Final = _Number(1000, 20)
_REAL: Final = {"protocol": _Number(100, 10), "scale": _Number(50, 10)}
_CLIENTS: Final = "Clients whose work is measured."

Json = Annotated[Path | None, typer.Option(help="File to write the results to.")]
Markdown = Annotated[Path | None, typer.Option(help="File to write the tables to.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Small sizes and keys: shows that it runs, not how fast.")
]
KeyBits = Annotated[int | None, _KEY_BITS.option("Size of the Paillier keys.")]
Sizes = Annotated[str | None, typer.Option(help="Values of N, separated by commas.")]

app = typer.Typer(
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Measure what encryption, the protocol, large federations and the engines cost.",
    epilog="Example: [bold]python apps/benchmarks crypto --quick[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    suggest_commands=False,
)


@app.command(epilog=_EPILOG.format(name="crypto"))
def crypto(
    *,
    rounds: Annotated[int | None, _TIMES.option("How often each is timed.")] = None,
    key_bits: KeyBits = None,
    quick: Quick = False,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Time encryption, sums and sealed keys, beside phe element by element and a floor."""
    from bench.crypto import bench_crypto  # noqa: PLC0415 - takes a while

    _run(
        lambda _tell: bench_crypto(
            key_bits=_KEY_BITS.of(key_bits, quick=quick), rounds=_TIMES.of(rounds, quick=quick)
        ),
        json,
        markdown,
    )


@app.command(epilog=_EPILOG.format(name="protocol"))
def protocol(
    *,
    sizes: Sizes = None,
    num_real: Annotated[int | None, _REAL["protocol"].option(_CLIENTS)] = None,
    training: Annotated[
        bool, typer.Option(help="Measure the training of a client too, which needs torch.")
    ] = True,
    key_bits: KeyBits = None,
    quick: Quick = False,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Go through an epoch and the rounds after it, by stage, beside the training they steer."""
    from bench.protocol import bench_protocol  # noqa: PLC0415

    _run(
        lambda tell: bench_protocol(
            sizes=_sizes(sizes, (30, 60) if quick else (100, 1000, 8962)),
            key_bits=_KEY_BITS.of(key_bits, quick=quick),
            num_participants=6 if quick else 20,
            num_following=2 if quick else 5,
            num_real=_REAL["protocol"].of(num_real, quick=quick),
            training=training,
            on_size=tell,
        ),
        json,
        markdown,
    )


@app.command(epilog=_EPILOG.format(name="scale"))
def scale(
    *,
    sizes: Sizes = None,
    rule: Annotated[str, typer.Option(help="How to select: paper or default.")] = "paper",
    num_real: Annotated[int | None, _REAL["scale"].option(_CLIENTS)] = None,
    key_bits: KeyBits = None,
    quick: Quick = False,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Measure time and memory of the server for up to a million nodes."""
    from bench.scale import bench_scale  # noqa: PLC0415

    _run(
        lambda tell: bench_scale(
            sizes=_sizes(sizes, (100, 200) if quick else (1000, 10_000, 100_000, 1_000_000)),
            rule=rule,
            key_bits=_KEY_BITS.of(key_bits, quick=quick),
            num_participants=6 if quick else 20,
            num_real=_REAL["scale"].of(num_real, quick=quick),
            on_size=tell,
        ),
        json,
        markdown,
    )


@app.command(epilog=_EPILOG.format(name="engine"))
def engine(
    *,
    num_nodes: Annotated[int | None, _NODES.option("Nodes that answer.")] = None,
    ray: Annotated[
        bool | None,
        typer.Option(help="Measure Ray too.", show_default="if it is installed, not with --quick"),
    ] = None,
    quick: Quick = False,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Count messages and rounds a second, in this process and on Ray."""
    from bench.engine import bench_engine  # noqa: PLC0415

    _run(
        lambda tell: bench_engine(
            num_nodes=_NODES.of(num_nodes, quick=quick),
            ray=False if quick and ray is None else ray,
            on_engine=tell,
        ),
        json,
        markdown,
    )


def _run(
    measure: Callable[[Callable[[str], None]], BenchResults],
    json: Path | None,
    markdown: Path | None,
) -> None:
    writable_file(json)
    writable_file(markdown)
    console = Console()
    with console.status("measuring") as status:
        results = measure(lambda what: status.update(f"measuring: {what}"))
    for table in (*results.tables, results.figure_table()):
        console.print(table.for_terminal())
    if json is not None:
        results.save(json)
    if markdown is not None:
        markdown.write_text(results.markdown(), encoding="utf-8")
    if written := [escape(str(path)) for path in (json, markdown) if path is not None]:
        console.print(f"Written: {', '.join(written)}.", highlight=False)


def _sizes(given: str | None, usual: tuple[int, ...]) -> tuple[int, ...]:
    return usual if given is None else numbers("sizes", given, int)


def main() -> None:
    """Run the command line."""
    run_application(app)
