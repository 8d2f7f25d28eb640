"""An import of a package only ever points down the package's layers."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from docs.pages import blocks

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dubhe_flwr"
LAB = ROOT / "apps" / "lab" / "dubhe_lab"
LAYERS = {
    PACKAGE: (
        ("errors",),
        ("core",),
        ("he",),
        ("protocol",),
        ("rules",),
        ("adapter",),
        ("server", "serverapp", "clientapp", "simulation", "labels"),
        ("testing",),
    ),
    LAB: (
        ("data", "baselines", "training", "report"),
        ("experiments",),
        ("cli",),
        ("bench",),
        ("paper",),
    ),
}
LEVELS = {
    package: {name: level for level, names in enumerate(layers) for name in names}
    for package, layers in LAYERS.items()
}
SANS_IO = ("errors", "core", "he", "protocol", "rules")
OUTSIDE_WORLD = {
    "asyncio", "flwr", "http", "multiprocessing", "pathlib", "requests", "select", "shutil",
    "signal", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "torch", "urllib",
}  # fmt: skip
BUILT_IN = {"input", "open", "print"}
OF_FLOWER = {"app", "clientapp", "common", "server", "serverapp"}
OF_FLOWER |= {"server.client_proxy", "server.criterion", "server.strategy", "serverapp.strategy"}


@cache
def imported(source: str) -> list[tuple[int, str]]:
    """Return line and dotted name of each import, also of those within functions."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module or ""]
            if node.module in {PACKAGE.name, LAB.name}:  # `from dubhe_flwr import core`, too
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(node.lineno, name) for name in names]
    return found


def upward(layer: str, source: str, package: Path = PACKAGE) -> list[tuple[int, str]]:
    """Return line and name of each import that does not point down, or to no layer at all."""
    level = LEVELS[package]
    found = []
    for line, name in imported(source):
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top == package.name and target != layer and level.get(target, 99) >= level[layer]:
            found.append((line, name))
    return found


def worldly(source: str) -> list[tuple[int, str]]:
    """Return line and name of each way to the outside world; an adapter goes there."""
    found = [each for each in imported(source) if each[1].partition(".")[0] in OUTSIDE_WORLD]
    return found + [
        (node.lineno, node.func.id)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in BUILT_IN
    ]


def modules(layer: str, package: Path = PACKAGE) -> list[Path]:
    """Return the modules of a layer."""
    return sorted([*package.glob(f"{layer}.py"), *package.glob(f"{layer}/**/*.py")])


@pytest.mark.parametrize(
    ("package", "layer"),
    [(package, layer) for package, level in LEVELS.items() for layer in level],
    ids=lambda each: getattr(each, "name", each),
)
def test_imports_point_down(package: Path, layer: str) -> None:
    """Imports point down, and nothing below the adapters reaches for the outside world."""
    found = {path: upward(layer, path.read_text(), package) for path in modules(layer, package)}
    assert found
    assert not any(found.values()), found
    if package == PACKAGE and layer in SANS_IO:
        ways_out = {path: worldly(path.read_text()) for path in found}
        assert not any(ways_out.values()), ways_out


@pytest.mark.parametrize("package", LEVELS, ids=lambda each: each.name)
def test_every_module_is_in_a_layer(package: Path) -> None:
    """Every module belongs to a layer, and the page on the design names them all, in order."""
    names = {path.relative_to(package).parts[0] for path in package.rglob("*.py")}
    assert {name.removesuffix(".py") for name in names} - {"__init__"} == set(LEVELS[package])
    page = (ROOT / "docs" / "explanation" / "design.md").read_text(encoding="utf-8")
    first_cells = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    rows = [tuple(re.findall(r"`(\w+)`", cell)) for cell in first_cells]
    listed = [row for row in rows if set(row) <= set(LEVELS[package])]
    assert sorted(map(sorted, listed)) == sorted(map(sorted, LAYERS[package]))
    assert [LEVELS[package][row[0]] for row in listed] == [*range(len(listed))][::-1]


def test_the_product_imports_neither_the_lab_nor_the_inner_parts_of_flower() -> None:
    """Undocumented modules of Flower are looked up in `_compat`, which has a fallback."""
    foreign = {"dubhe_lab", "typer", "rich", "matplotlib", "sklearn", "pandas"}
    for path in PACKAGE.rglob("*.py"):
        names = {name for _, name in imported(path.read_text())}
        assert not {name.partition(".")[0] for name in names} & foreign, path
        flower = {name.removeprefix("flwr.") for name in names if name.startswith("flwr.")}
        assert flower <= OF_FLOWER, path


@pytest.mark.parametrize(("side", "other"), [("node", "coordinator"), ("coordinator", "node")])
def test_the_two_sides_of_the_protocol_never_import_each_other(side: str, other: str) -> None:
    """Code that both sides need is in `wire`, `vaults` or `rules`, which import neither side."""
    for room in (side, "wire", "vaults", "rules"):
        for path in modules(f"protocol/{room}"):
            names = [name for _, name in imported(path.read_text())]
            forbidden = f"dubhe_flwr.protocol.{other}"
            assert not [name for name in names if name.startswith(forbidden)], path


def test_a_node_loads_nothing_of_the_server() -> None:
    """Whoever vets a node need not read what runs on the server only."""
    code = "import dubhe_flwr.clientapp, sys; print(*sys.modules, sep='\\n')"
    ran = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name for name in ran.stdout.split() if name.startswith("dubhe_flwr.")}
    adapter = {"_compat", "durable", "messages", "signatures"}
    rooms = {"coordinator", "replies", "selector", "settings", "simulated_nodes"}
    own = {name.split(".")[2] for name in loaded if name.startswith("dubhe_flwr.adapter.")}
    assert own == adapter
    assert not {name.split(".")[2] for name in loaded if name.count(".") > 1} & rooms
    assert not {name.split(".")[1] for name in loaded} & {"server", "serverapp", "simulation"}


def test_the_rule_of_the_documentation_fits_where_it_goes() -> None:
    """Its imports are those of a module of `protocol/rules`, not those of an app."""
    rule, *_ = blocks(ROOT / "docs" / "howto" / "extend_dubhe.md", "python")
    assert "@register_rule" in rule
    assert upward("protocol", rule) == []


def test_a_wrong_import_is_found() -> None:
    """Imports up, or of the outside world, also within a function."""
    assert upward("core", "def f():\n    from dubhe_flwr.protocol import Plan")
    assert upward("he", "from dubhe_flwr import protocol")
    assert worldly("def f():\n    from time import sleep")
    assert worldly("open('file')")
