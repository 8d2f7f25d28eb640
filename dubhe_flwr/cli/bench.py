"""`dubhe bench`: what encryption, the protocol, large federations and the engines cost."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from dubhe_flwr.cli.arguments import numbers
from dubhe_flwr.report.bench import BenchResults

__all__ = ["bench"]

_EPILOG: Final = (
    "Example: [bold]dubhe bench {name} --json results/{name}.json "
    "--markdown results/{name}.md[/bold]"
)
_SMALL_KEY: Final = 512

Json = Annotated[Path | None, typer.Option(help="File to write the results to.")]
Markdown = Annotated[Path | None, typer.Option(help="File to write the tables to.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Small sizes and keys: shows that it runs, not how fast.")
]
KeyBits = Annotated[
    int | None,
    typer.Option(help="Size of the Paillier keys.", show_default="2048, or 512 with --quick"),
]
Sizes = Annotated[str | None, typer.Option(help="Values of N, separated by commas.")]

bench = typer.Typer(
    help="Measure what encryption, the protocol, large federations and the engines cost.",
    epilog="Example: [bold]dubhe bench crypto --quick[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@bench.command(epilog=_EPILOG.format(name="crypto"))
def crypto(
    *,
    rounds: Annotated[
        int | None,
        typer.Option(help="How often each is timed.", show_default="10, or 2 with --quick"),
    ] = None,
    key_bits: KeyBits = None,
    quick: Quick = False,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Time encryption, sums and sealed keys, beside phe element by element and a floor."""
    from dubhe_flwr.experiments.bench.crypto import bench_crypto  # noqa: PLC0415 - takes a while

    _run(
        lambda _tell: bench_crypto(
            key_bits=_key_bits(key_bits, quick=quick), rounds=rounds or (2 if quick else 10)
        ),
        json,
        markdown,
    )


@bench.command(epilog=_EPILOG.format(name="protocol"))
def protocol(
    *,
    sizes: Sizes = None,
    num_real: Annotated[
        int | None,
        typer.Option(
            help="Clients whose work is measured.", show_default="100, or 10 with --quick"
        ),
    ] = None,
    training: Annotated[
        bool, typer.Option(help="Measure the training of a client too, which needs torch.")
    ] = True,
    key_bits: KeyBits = None,
    quick: Quick = False,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Go through an epoch and the rounds after it, by stage, beside the training they steer."""
    from dubhe_flwr.experiments.bench.protocol import bench_protocol  # noqa: PLC0415

    _run(
        lambda tell: bench_protocol(
            sizes=_sizes(sizes, (30, 60) if quick else (100, 1000, 8962)),
            key_bits=_key_bits(key_bits, quick=quick),
            num_participants=6 if quick else 20,
            num_following=2 if quick else 5,
            num_real=num_real or (10 if quick else 100),
            training=training,
            on_size=tell,
        ),
        json,
        markdown,
    )


@bench.command(epilog=_EPILOG.format(name="scale"))
def scale(
    *,
    sizes: Sizes = None,
    rule: Annotated[str, typer.Option(help="How to select: paper or default.")] = "paper",
    num_real: Annotated[
        int | None,
        typer.Option(help="Clients whose work is measured.", show_default="50, or 10 with --quick"),
    ] = None,
    key_bits: KeyBits = None,
    quick: Quick = False,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Measure time and memory of the server for up to a million nodes."""
    from dubhe_flwr.experiments.bench.scale import bench_scale  # noqa: PLC0415

    _run(
        lambda tell: bench_scale(
            sizes=_sizes(sizes, (100, 200) if quick else (1000, 10_000, 100_000, 1_000_000)),
            rule=rule,
            key_bits=_key_bits(key_bits, quick=quick),
            num_participants=6 if quick else 20,
            num_real=num_real or (10 if quick else 50),
            on_size=tell,
        ),
        json,
        markdown,
    )


@bench.command(epilog=_EPILOG.format(name="engine"))
def engine(
    *,
    num_nodes: Annotated[
        int | None, typer.Option(help="Nodes that answer.", show_default="1000, or 20 with --quick")
    ] = None,
    ray: Annotated[
        bool | None,
        typer.Option(help="Measure Ray too.", show_default="if it is installed, not with --quick"),
    ] = None,
    quick: Quick = False,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Count messages and rounds a second, in this process and on Ray."""
    from dubhe_flwr.experiments.bench.engine import bench_engine  # noqa: PLC0415

    _run(
        lambda tell: bench_engine(
            num_nodes=num_nodes or (20 if quick else 1000),
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
    console = Console()
    with console.status("measuring") as status:
        results = measure(lambda what: status.update(f"measuring: {what}"))
    for table in (*results.tables, results.figure_table()):
        console.print(table.for_terminal())
    if json is not None:
        results.save(json)
    if markdown is not None:
        markdown.parent.mkdir(parents=True, exist_ok=True)
        markdown.write_text(results.markdown(), encoding="utf-8")
    if written := [escape(str(path)) for path in (json, markdown) if path is not None]:
        console.print(f"Written: {', '.join(written)}.", highlight=False)


def _key_bits(given: int | None, *, quick: bool) -> int:
    return given or (_SMALL_KEY if quick else 2048)


def _sizes(given: str | None, usual: tuple[int, ...]) -> tuple[int, ...]:
    return usual if given is None else numbers("sizes", given, int)
