"""A PDF of plain text lines, written without a library: version 1.4, Helvetica 10, 52 lines on a page of A4."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ripieno._printable import printable

__all__ = ["LINES_PER_PAGE", "WRAP_CHARACTERS", "text_pdf"]

LINES_PER_PAGE = 52
WRAP_CHARACTERS = 92
_WIDTH, _HEIGHT, _LEFT, _TOP, _LEADING, _SIZE = 595, 842, 50, 792, 14, 10


def text_pdf(lines: Sequence[str]) -> bytes:
    """Set lines of text; long ones are wrapped at 92 characters.

    Characters that the built-in font lacks become ``?``; nothing in the text can leave its string.
    """
    wrapped = [part for line in lines for part in textwrap.wrap(printable(line), WRAP_CHARACTERS) or [""]]
    pages = [wrapped[start : start + LINES_PER_PAGE] for start in range(0, len(wrapped), LINES_PER_PAGE)] or [[]]
    n_pages = len(pages)
    kids = " ".join(f"{4 + 2 * page} 0 R" for page in range(n_pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {n_pages} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for page, page_lines in enumerate(pages):
        content = _content(page_lines)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_WIDTH} {_HEIGHT}] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * page} 0 R >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    return _file(objects)


def _content(lines: Sequence[str]) -> bytes:
    shown = [b"(%b) Tj T*" % _escaped(line) for line in lines]
    return b"\n".join([b"BT", b"/F1 %d Tf %d TL %d %d Td" % (_SIZE, _LEADING, _LEFT, _TOP), *shown, b"ET"])


def _escaped(line: str) -> bytes:
    text = line.encode("cp1252", "replace")
    return text.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _file(objects: Sequence[bytes]) -> bytes:
    data = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for offset in offsets:
        data += b"%010d 00000 n \n" % offset
    data += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(data)
