"""`python apps/deployment`: a SuperLink, SuperNodes and an app on this host, with TLS and keys."""
# ruff: noqa: INP001 - Python runs this folder; it is not a package

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from deployment import Federation
from deployment.processes import counting, end_by_exceptions

QUICKSTART = Path(__file__).parents[1] / "quickstart"


def main(
    supernodes: Annotated[int, typer.Option(min=3, help="Number of SuperNodes.")] = 5,
    app: Annotated[Path, typer.Option(help="Folder of the app.")] = QUICKSTART,
    run_config: Annotated[
        str | None, typer.Option(help="The app's settings, as for `flwr run`.")
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(help="New folder for the logs; by default kept only after a failure."),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds before giving up.")] = 3600.0,
) -> None:
    """Start a SuperLink and SuperNodes on loopback, run an app on them, and stop them all."""
    if run_config is None and app == QUICKSTART:
        run_config = f"num-server-rounds=2 num-participants=3 expected-nodes={supernodes}"
    if home is not None and home.exists() and any(home.iterdir()):
        # The folder becomes Flower's home, so an existing configuration or keys would be lost.
        raise typer.BadParameter(f"{home} is not empty; name a new folder.", param_hint="--home")
    end_by_exceptions()
    folder = home or Path(tempfile.mkdtemp(prefix="dubhe-"))
    typer.echo(f"Starting a SuperLink and {supernodes} SuperNodes; their logs are in {folder}.")
    status = "failed to start"
    try:
        with counting(typer.echo), Federation(folder, supernodes, typer.echo) as federation:
            status, _ = federation.run(
                app, run_config or "", timeout, lambda line: typer.echo(line, nl=False)
            )
    except (RuntimeError, TimeoutError) as error:
        status = str(error)
    finally:
        completed = status == "finished:completed"
        shutil.rmtree(folder / "credentials", ignore_errors=True)
        if completed and home is None:
            shutil.rmtree(folder)
        logs = "" if completed else f" See the logs in {folder}."
        typer.echo(f"{status}. All processes are stopped and the keys deleted.{logs}")
    raise typer.Exit(0 if completed else 1)


if __name__ == "__main__":
    typer.run(main)
