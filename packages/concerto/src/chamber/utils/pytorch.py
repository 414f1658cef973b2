"""PyTorch, or one clear sentence about how to get it; whoever learns or uses a learned policy takes it from here."""

try:
    import torch
except ImportError as error:
    raise ImportError("learning needs PyTorch; install it with: pip install 'ripieno-concerto[train]'") from error

__all__ = ["torch"]
