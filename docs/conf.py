"""How the documentation is built: `uv run sphinx-build -W docs build/docs`, without a network."""

import inspect
import pkgutil
import re
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

import dubhe_flwr
import dubhe_lab

project = "dubhe-flwr"
author = "The dubhe-flwr authors"
copyright = "The dubhe-flwr authors, Apache-2.0"  # noqa: A001 - Sphinx's name
release = version = version_of("dubhe-flwr")

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc"]
myst_heading_anchors = 3
suppress_warnings = ["ref.python"]  # `Dubhe` names a class in each of Flower's APIs

html_theme = "furo"
html_title = "Dubhe for Flower"
html_static_path = ["_static"]
html_css_files = ["pages.css"]

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings name types, with shapes and units
autodoc_default_options = {"members": True, "imported-members": True, "undoc-members": True}
numpydoc_show_class_members = False
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [(r"py:obj", r".*"), (r"py:class", r"(?!dubhe_flwr|dubhe_lab).*")]


_MODULES = [
    module.name
    for package in (dubhe_flwr, dubhe_lab)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@cache
def _documented_data(module: str) -> dict[str, list[str]]:
    """Return the docstrings that stand below a module's constants and types."""
    try:
        analyzer = ModuleAnalyzer.for_module(module)
        analyzer.analyze()
    except PycodeError:  # an empty file
        return {}
    return {name: lines for (_, name), lines in analyzer.attr_docs.items()}


def _take_docstring(
    _app: Sphinx, what: str, name: str, _value: object, _options: object, lines: list[str]
) -> None:
    """Give a constant the docstring it has where it is defined, not the one of its type."""
    if what != "data":
        return
    module, _, own = name.rpartition(".")
    documented = (_documented_data(each) for each in _MODULES if each.startswith(module))
    lines[:] = next((data[own] for data in documented if own in data), [])


def _skip(
    _app: Sphinx,
    what: str,
    _name: str,
    value: Any,
    skip: bool,
    _options: object,
) -> bool:
    """Leave out fields of dataclasses and the like: the docstring of the class describes them."""
    documented = inspect.isroutine(value) or isinstance(value, property | cached_property | Enum)
    return skip or (what == "class" and not documented)


def _prepare(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Make links to files that are not pages lead to the files."""
    source[0] = re.sub(r"\]\((?=(\.\./)+(apps|tests)/)", "](path:", source[0])


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", _prepare)
    app.connect("autodoc-process-docstring", _take_docstring)
    app.connect("autodoc-skip-member", _skip)
    import_module("torch")  # slow to be imported, so once and before the clock of a page runs
