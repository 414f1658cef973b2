"""Which device PyTorch should compute on."""

from __future__ import annotations

from typing import Literal

__all__ = ["DeviceName", "torch_device"]

DeviceName = Literal["cuda", "mps", "cpu"]


def torch_device() -> DeviceName:
    """Name the best device of this machine: CUDA before MPS before the CPU, which it is without PyTorch, too."""
    try:
        import torch
    except ImportError:
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"
