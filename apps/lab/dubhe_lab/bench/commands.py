"""`dubhe bench`: the cost of encryption, the protocol, large federations and engines."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

import typer
from rich.console import Console

from dubhe_lab.bench.crypto import bench_crypto
from dubhe_lab.bench.deployment import bench_deployment
from dubhe_lab.bench.engine import bench_engine
from dubhe_lab.bench.measuring import BenchResults
from dubhe_lab.bench.present import bench_present
from dubhe_lab.bench.protocol import bench_protocol
from dubhe_lab.bench.rounds import bench_rounds
from dubhe_lab.bench.scale import bench_scale
from dubhe_lab.bench.simulation import bench_simulation
from dubhe_lab.bench.start import bench_start
from dubhe_lab.bench.vaults import bench_vaults
from dubhe_lab.cli.application import new_application
from dubhe_lab.cli.options import command, writable_file
from dubhe_lab.experiments.options import CommandSettings

_Bench: TypeAlias = Callable[[Any], BenchResults]

_BENCHMARKS: Final[dict[str, _Bench]] = {
    "crypto": bench_crypto,
    "vaults": bench_vaults,
    "protocol": bench_protocol,
    "simulation": bench_simulation,
    "present": bench_present,
    "scale": bench_scale,
    "engine": bench_engine,
    "rounds": bench_rounds,
    "deployment": bench_deployment,
    "start": bench_start,
}
_EPILOG: Final = "Example: [bold]dubhe bench {name} --json results/{name}.json[/bold]"

app = new_application(
    help="Measure the cost of encryption, the protocol, large federations and engines.",
    epilog="Example: [bold]dubhe bench crypto --quick[/bold]",
    no_args_is_help=True,
)


def _run(
    bench: _Bench,
    settings_of: Callable[[bool], CommandSettings],
    *,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Use small sizes and keys, to check that it runs."),
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the results to this file.")] = None,
) -> None:
    settings = settings_of(quick)
    writable_file(json)
    console = Console()
    with console.status("measuring"):
        results = bench(settings)
    for table in (*results.tables, results.figure_table()):
        console.print(table.for_terminal())
    if json is not None:
        results.save(json)
        console.print(f"Written: {json}.", highlight=False, markup=False)


def _command(bench: _Bench) -> Callable[..., None]:
    """Return a benchmark's command, which has smaller defaults with --quick."""
    settings: type[CommandSettings] = get_type_hints(bench)["settings"]
    smaller = {
        own.name: own.metadata["quick"] for own in settings.flat_fields() if "quick" in own.metadata
    }
    usual = settings.of().flat()

    def build(**given: Any) -> Callable[[bool], CommandSettings]:
        own = {name: value for name, value in given.items() if value is not None}
        return lambda quick: settings.of(**(smaller if quick else {}) | own)

    shown = {
        name: f"{_text(usual[name])}, or {_text(smaller[name])} with --quick" for name in smaller
    }
    return command(partial(_run, bench), settings, build, shown=shown)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


for _name, _bench in _BENCHMARKS.items():
    _about = (_bench.__doc__ or "").partition("\n")[0]
    app.command(_name, help=_about, epilog=_EPILOG.format(name=_name))(_command(_bench))
