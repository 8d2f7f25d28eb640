"""The progress bar counts rounds and shows the accuracy."""

from io import StringIO
from logging import INFO, getLogger

from rich.console import Console
from small_comparison import small_settings

from dubhe_flwr.experiments.progress import compare_progress


def test_it_counts_the_rounds_of_all_methods() -> None:
    """The initial model is no round; the last accuracy stays; Flower's log is quiet meanwhile."""
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    settings = small_settings(methods=("random", "dubhe"))
    with compare_progress(console, settings) as update:
        assert not getLogger("flwr").isEnabledFor(INFO)
        for method in settings.methods:
            for server_round in range(3):
                update(method, server_round, 0.75 if server_round < 2 else None)
    shown = screen.getvalue()
    assert "4/6" in shown
    assert "5/6" not in shown
    assert "Dubhe" in shown
    assert "accuracy 75.0%" in shown


def test_a_file_gets_a_line_now_and_then() -> None:
    """Without a terminal five rounds of each method are told, and the initial model."""
    file = StringIO()
    settings = small_settings(methods=("random", "greedy"), num_rounds=12)
    with compare_progress(Console(file=file, width=100), settings) as update:
        for method in settings.methods:
            for server_round in range(13):
                update(method, server_round, server_round / 20 if server_round != 9 else None)
    lines = file.getvalue().splitlines()
    assert lines[:2] == [
        "random: round 0 of 12  accuracy 0.0%",
        "random: round 3 of 12  accuracy 15.0%",
    ]
    assert lines[3:5] == ["random: round 9 of 12", "random: round 12 of 12  accuracy 60.0%"]
    assert len(lines) == 10
