"""Where the console script ``chamber`` starts."""

from __future__ import annotations

from chamber.cli._app import chamber

__all__ = ["main"]


def main() -> None:
    """Run ``chamber``."""
    chamber(prog_name="chamber")


if __name__ == "__main__":
    main()
