"""Experiments show their progress as bars on a terminal, and as lines elsewhere."""

from contextlib import suppress
from io import StringIO
from logging import INFO, WARNING, getLogger

from rich.console import Console

from dubhe_lab.experiments.progress import flower_log_level, rounds_progress


def test_a_terminal_shows_one_bar_for_all_methods() -> None:
    """The bar skips the initial model, keeps the last accuracy and silences Flower's log."""
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    methods = "random", "dubhe"
    with suppress(KeyError), rounds_progress(console, methods, 3) as update:
        assert not getLogger("flwr").isEnabledFor(INFO)
        for method in methods:
            for server_round in range(3):
                update(method, server_round, 0.75 if server_round < 2 else None)
        raise KeyError
    shown = screen.getvalue()
    assert "83%" in shown  # the first method is done, and two of three rounds of the second
    assert "100%" not in shown
    assert "Dubhe" in shown
    assert "accuracy 75.0%" in shown


def test_a_file_gets_a_few_lines_per_method() -> None:
    """A file gets the initial model and five rounds of each method."""
    file = StringIO()
    methods = "random", "greedy"
    with rounds_progress(Console(file=file, width=100), methods, 12) as update:
        for method in methods:
            for server_round in range(13):
                update(method, server_round, server_round / 20 if server_round != 9 else None)
    lines = file.getvalue().splitlines()
    assert lines[0] == "random: round 0 of 12  accuracy 0.0%"
    assert lines[1] == "random: round 3 of 12  accuracy 15.0%"
    assert lines[3:5] == ["random: round 9 of 12", "random: round 12 of 12  accuracy 60.0%"]
    assert len(lines) == 10


def test_the_log_level_is_restored() -> None:
    """Flower's log level is restored even after an error."""
    logger = getLogger("flwr")
    before = logger.level
    logger.setLevel(INFO)
    quiet = False
    with suppress(KeyError), flower_log_level(WARNING):
        quiet = logger.isEnabledFor(WARNING) and not logger.isEnabledFor(INFO)
        raise KeyError
    assert quiet
    assert logger.level == INFO
    logger.setLevel(before)
