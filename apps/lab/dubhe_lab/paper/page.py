"""A report as one self-contained HTML page, with embedded pictures and without scripts."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from dubhe_lab.report.picture import Picture
from dubhe_lab.report.table import Table


@dataclass(frozen=True)
class Section:
    """The findings of one experiment; the name is short and unique within a report."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


_STYLE: Final = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 70rem; padding: 2rem 1.25rem 4rem; color: #22262b;
  background: #fff; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .6rem; padding-top: .6rem; border-top: 1px solid #e5e7eb; }
nav a { display: inline-block; margin: 0 1rem .3rem 0; }
a { color: #0072b2; }
caption { max-width: calc(100vw - 2.5rem); }
table { margin: 1.2rem 0; border-collapse: collapse; font-variant-numeric: tabular-nums;
  font-size: .88rem; }
caption, figcaption { text-align: left; color: #4b5563; font-size: .92rem; padding: .35rem 0; }
th, td { padding: .3rem .8rem .3rem 0; text-align: right; border-bottom: 1px solid #e5e7eb;
  white-space: nowrap; vertical-align: top; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
thead th { border-bottom: 2px solid #6b7280; vertical-align: bottom; }
figure { margin: 1.4rem 0; }
img { max-width: 100%; height: auto; }
details { margin-top: 3rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; font-size: .92rem; }
dt { color: #4b5563; } dd { margin: 0; overflow-wrap: anywhere; }
"""


def render_page(
    title: str,
    introduction: Sequence[str],
    sections: Sequence[Section],
    settings: Mapping[str, str],
) -> str:
    """Return a self-contained HTML page, with the settings of the run at the end."""
    links = " ".join(f'<a href="#{escape(s.name)}">{escape(s.title)}</a>' for s in sections)
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in settings.items()
    )
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # Without an empty icon, browsers would request one.
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            *_paragraphs(introduction),
            f"<nav>{links}</nav>",
            *(_section(section) for section in sections),
            f'<section id="settings">\n<h2>Settings</h2>\n<dl>{facts}</dl>\n</section>',
            "</body>\n</html>\n",
        ]
    )


def _section(section: Section) -> str:
    return "\n".join(
        [
            f'<section id="{escape(section.name)}">\n<h2>{escape(section.title)}</h2>',
            *_paragraphs(section.paragraphs),
            *(table.for_html() for table in section.tables),
            *map(_picture, section.pictures),
            "</section>",
        ]
    )


def _paragraphs(texts: Sequence[str]) -> list[str]:
    return [f"<p>{escape(text)}</p>" for text in texts]


def _picture(picture: Picture) -> str:
    data = b64encode(picture.png).decode("ascii")
    caption = escape(picture.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
