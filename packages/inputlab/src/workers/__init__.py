"""Worker programs that Input lab drives as separate processes."""

from __future__ import annotations

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Look the version up on first use: a worker started as a file has no installed package to ask at import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("ripieno-inputlab")
