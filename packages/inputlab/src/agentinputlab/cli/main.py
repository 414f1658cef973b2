"""Where the console scripts start."""

from __future__ import annotations

from agentinputlab.cli._app import agentinputlab

__all__ = ["experiments", "main"]


def main() -> None:
    """Run ``agentinputlab``."""
    agentinputlab(prog_name="agentinputlab")


def experiments() -> None:
    """Run ``agentinputlab-experiments``, a short name of ``agentinputlab campaign``."""
    import sys

    agentinputlab(["campaign", *sys.argv[1:]], prog_name="agentinputlab")


if __name__ == "__main__":
    main()
