"""Matplotlib figures as inline SVG: the same bytes every time, readable on light and on dark pages.

Text stays text, in the reader's own font, so that it can be searched, selected and read aloud; the layout is
computed with a wider font, so nothing overlaps. Black becomes the page's text colour and white its background.
"""

from __future__ import annotations

import base64
import io
import re
import struct
import warnings
from typing import TYPE_CHECKING, Any

from ripieno.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

__all__ = ["FIGURE_STYLE", "PALETTE", "figure_to_svg", "png_to_svg", "with_unique_ids"]

PALETTE = ("#2f7ec2", "#d2691e", "#1f9270", "#b45fc0", "#c9445d", "#8a7a1f", "#6b7f8f")
"""Line colours in order of use; each has a contrast of at least 3:1 on the light and on the dark page."""

FIGURE_STYLE: dict[Any, Any] = {
    "figure.figsize": (7.2, 3.4),
    "figure.constrained_layout.use": True,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": "cycler('color', [" + ", ".join(f"'{colour}'" for colour in PALETTE) + "])",
    "grid.color": "#808080",
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 9.0,
}
"""Settings for ``with matplotlib.rc_context(FIGURE_STYLE):`` around the code that draws."""

_SAVING: dict[Any, Any] = {"svg.hashsalt": "ripieno", "svg.fonttype": "none"}
_MATH_FONTS = "'DejaVu Sans', 'Bitstream Vera Sans', Verdana, Geneva, sans-serif"
"""Formulas are placed letter by letter, so they need a font as wide as the one they were measured with."""
_TEXT_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"

_PNG_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_PNG_SIZE_END = len(_PNG_START) + 8
"""Where width and height end: they are the first fields of the first chunk."""

_PROLOGUE = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_GLOBAL_STYLE = re.compile(r"\s*<defs>\s*<style type=\"text/css\">[^<]*</style>\s*</defs>")
_BLACK = re.compile(r"(?<=: )#000000(?=[;\"])")
_WHITE = re.compile(r"(?<=: )#ffffff(?=[;\"])")
_TEXT_TAG = re.compile(r"<(text|tspan) [^>]*>")
_DEFAULT_FAMILY = re.compile(r"'DejaVu Sans'[^;\"]*")
_ID = re.compile(r'(\bid="|href="#|url\(#)')


def figure_to_svg(figure: MatplotlibFigure) -> str:
    """Give a figure as one ``<svg>`` element; equal figures give equal text, in any process, at any time.

    Write Greek letters as themselves (``λ``): the letters of a formula (``$\\lambda$``) are placed one by one and
    cannot be searched.

    Args:
        figure: drawn with the caller's settings, `FIGURE_STYLE` for the looks of the rest of the page.

    Returns:
        The element, without XML declaration, date or program name.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context(_SAVING), warnings.catch_warnings():
        # The reader's fonts draw the text; the font that measures it need not have every letter.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font")
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = _PROLOGUE.sub("", buffer.getvalue(), count=1)
    svg = _GLOBAL_STYLE.sub("", _METADATA.sub("", svg))
    svg = _TEXT_TAG.sub(_with_page_fonts, svg)
    svg = _WHITE.sub("var(--paper, #ffffff)", _BLACK.sub("currentColor", svg))
    inherited = '<svg fill="currentColor" stroke-linejoin="round" stroke-linecap="butt"'
    return svg.replace("<svg", inherited, 1).strip()


def png_to_svg(png: bytes) -> str:
    """Give a PNG picture as one ``<svg>`` element that holds it, for pages that load nothing.

    Raises:
        InputError: these are not the bytes of a PNG file.
    """
    if not png.startswith(_PNG_START) or len(png) < _PNG_SIZE_END:
        raise InputError("a picture must be the bytes of a PNG file")
    width, height = struct.unpack(">II", png[_PNG_SIZE_END - 8 : _PNG_SIZE_END])
    data = base64.b64encode(png).decode("ascii")
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<image width="{width}" height="{height}" href="data:image/png;base64,{data}"/></svg>'
    )


def _with_page_fonts(tag: re.Match[str]) -> str:
    fonts = _MATH_FONTS if tag[1] == "tspan" else _TEXT_FONTS
    return _DEFAULT_FAMILY.sub(lambda _: fonts, tag[0])


def with_unique_ids(svg: str, prefix: str) -> str:
    """Put a prefix before every id of an SVG and before every reference to one."""
    return _ID.sub(rf"\g<1>{prefix}", svg)
