"""What a study shows while it runs: on a terminal bars, elsewhere lines."""

from io import StringIO

from rich.console import Console

from dubhe_flwr.experiments import StudySettings
from dubhe_flwr.experiments.study import study
from dubhe_flwr.experiments.study_progress import study_progress

SETTINGS = StudySettings(
    num_clients=20,
    num_participants=4,
    tries=4,
    group_size=3,
    num_rounds=2,
    encrypted=True,
    key_bits=512,
)


def shown(*, terminal: bool) -> str:
    """Return what a small study shows."""
    screen = StringIO()
    console = Console(file=screen, force_terminal=terminal, width=100)
    with study_progress(console, SETTINGS) as progress:
        study(SETTINGS, progress.select, progress.answer)
    return screen.getvalue()


def test_a_terminal_shows_the_rounds_of_each_method() -> None:
    """Every method has a bar, and all of them end full."""
    last = shown(terminal=True).split("random")[-1]
    assert "Dubhe" in last
    assert last.count("2/2") == 3


def test_the_first_registration_is_followed_on_a_terminal() -> None:
    """The bar says how many clients have answered what, before the first selection."""
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with study_progress(console, SETTINGS) as progress:
        progress.answer("dubhe", "register", 7, 20)
    assert "0/2" in screen.getvalue()
    assert "register: 7 of 20" in screen.getvalue()


def test_a_file_gets_a_line_for_each_long_step() -> None:
    """The methods, and the exchanges before the first selection; nothing is drawn over."""
    lines = shown(terminal=False).splitlines()
    assert lines[:2] == ["random: hello, 20 to answer", "random selects"]
    assert lines[2:5] == [
        "Dubhe: join, 20 to answer",
        "Dubhe: keygen, 1 to answer",
        "Dubhe: register, 20 to answer",
    ]
    assert lines[-1].startswith("greedy")
    assert len(lines) == len(set(lines))
