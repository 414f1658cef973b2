"""All parameters of a module in one piece of memory, and Adam on that piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chamber.utils.pytorch import torch
from ripieno.errors import InputError

__all__ = ["Adam", "FlatParameters", "checked_parameters"]

nn = torch.nn

StateDict = dict[str, Any]

_fused_adam = torch.ops.aten._fused_adam_.default

_BETAS = (0.9, 0.999)
_MOMENTS = ("exp_avg", "exp_avg_sq")


class FlatParameters:
    """The parameters of a module as one vector; the module's own tensors become views of it, under their names.

    One operation on a vector costs what one on a bias costs, so thirteen tensors in one vector make an optimiser step
    about ten times as fast. The module must not be moved to another device afterwards.

    Attributes:
        values: all parameters, in the order of ``module.named_parameters()``.
        gradient: the gradient with respect to ``values``, same order.
        gradients: views of ``gradient`` under the parameters' names and in their shapes.
    """

    def __init__(self, module: nn.Module) -> None:
        named = list(module.named_parameters())
        self._shapes = {name: parameter.shape for name, parameter in named}
        self.values = torch.cat([parameter.detach().reshape(-1) for _, parameter in named])
        self.gradient = torch.zeros_like(self.values)
        self.gradients = self.views(self.gradient)
        for (_, parameter), view in zip(named, self.views(self.values).values(), strict=True):
            parameter.data = view

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Cut a vector of the length of ``values`` into views with the parameters' names and shapes."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        blocks = flat.split(sizes)
        return {name: block.view(shape) for (name, shape), block in zip(self._shapes.items(), blocks, strict=True)}


class Adam:
    r"""Adam without weight decay on one vector (Kingma & Ba 2015, arXiv 1412.6980, algorithm 1).

    With gradient $g$ and step number $t$::

        m = 0.9 m + 0.1 g          v = 0.999 v + 0.001 g^2
        values -= lr * (m / (1 - 0.9^t)) / (sqrt(v / (1 - 0.999^t)) + eps)

    ``state_dict()`` has the format of ``torch.optim.Adam`` over the module's parameters, either reads the other's.

    Args:
        parameters: what to change.
        lr: learning rate; may be changed at any time.
        eps: constant in the denominator.
    """

    def __init__(self, parameters: FlatParameters, *, lr: float, eps: float = 1e-8) -> None:
        self.lr = lr
        self.eps = eps
        self._parameters = parameters
        self._mean = torch.zeros_like(parameters.values)
        self._square = torch.zeros_like(parameters.values)
        self._n_steps = torch.zeros((), dtype=torch.float32, device=parameters.values.device)

    def step(self, *, gradient_divisor: torch.Tensor | None = None) -> None:
        """Take one step along ``parameters.gradient``.

        Args:
            gradient_divisor: the gradient is divided by it, in place; shape ``()``.
        """
        _fused_adam(
            [self._parameters.values],
            [self._parameters.gradient],
            [self._mean],
            [self._square],
            [],
            [self._n_steps.add_(1.0)],
            lr=self.lr,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=gradient_divisor,
            found_inf=None,
        )

    def state_dict(self) -> StateDict:
        """Give a copy of the state in the format of ``torch.optim.Adam``; without entries before the first step."""
        means, squares = self._parameters.views(self._mean), self._parameters.views(self._square)
        entries = {
            index: {"step": self._n_steps.cpu().clone(), "exp_avg": mean.clone(), "exp_avg_sq": square.clone()}
            for index, (mean, square) in enumerate(zip(means.values(), squares.values(), strict=True))
        }
        # Written here, because building an optimiser of PyTorch imports its compiler, which takes seconds.
        group = {
            "lr": self.lr,
            "betas": _BETAS,
            "eps": self.eps,
            "weight_decay": 0.0,
            "amsgrad": False,
            "maximize": False,
            "foreach": None,
            "capturable": False,
            "differentiable": False,
            "fused": None,
            "decoupled_weight_decay": False,
            "params": list(range(len(means))),
        }
        return {"state": entries if self._n_steps.item() else {}, "param_groups": [group]}

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Check that `load_state_dict` can take a state.

        Raises:
            InputError: it is no state of Adam over these parameters.
        """
        entries, groups = state.get("state"), state.get("param_groups")
        if not isinstance(entries, Mapping) or not isinstance(groups, list):
            raise InputError("an optimiser's state must have the keys 'state' and 'param_groups'")
        if not entries:
            return
        views = list(self._parameters.views(self._mean).values())
        entries = cast("Mapping[int, Mapping[str, Any]]", entries)
        if set(entries) != set(range(len(views))):
            raise InputError(f"the optimiser's state must have {len(views)} entries, got {sorted(entries)}")
        for index, view in enumerate(views):
            shapes = {
                moment: tuple(value.shape) if isinstance(value := entries[index].get(moment), torch.Tensor) else None
                for moment in _MOMENTS
            }
            if "step" not in entries[index] or any(shape != tuple(view.shape) for shape in shapes.values()):
                raise InputError(
                    f"entry {index} of the optimiser's state must hold a step and moments of shape "
                    f"{tuple(view.shape)}, got {shapes}"
                )
        if len({float(entry["step"]) for entry in entries.values()}) != 1:
            raise InputError("all entries of the optimiser's state must have the same step")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over moments and step number; learning rate and eps stay.

        Raises:
            InputError: see `check_state`; nothing has changed then.
        """
        self.check_state(state)
        self._n_steps.fill_(float(state["state"][0]["step"]) if state["state"] else 0.0)
        for flat, moment in ((self._mean, "exp_avg"), (self._square, "exp_avg_sq")):
            flat.zero_()
            for index, view in enumerate(self._parameters.views(flat).values()):
                if state["state"]:
                    view.copy_(state["state"][index][moment])


def checked_parameters(module: nn.Module, state: Mapping[str, Any], *, of: str) -> dict[str, torch.Tensor]:
    """Check that saved parameters fit a module.

    Args:
        module: what they are for.
        state: the saved ones, by name.
        of: what the message calls the module.

    Raises:
        InputError: a name is missing or unknown, or a shape differs; the message names the first one.
    """
    expected = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    found = {name: tuple(value.shape) if isinstance(value, torch.Tensor) else None for name, value in state.items()}
    for name in sorted({*expected, *found}):
        if found.get(name) != expected.get(name) or name not in expected:
            raise InputError(
                f"these parameters do not fit the {of}: {name} has shape {found.get(name)}, "
                f"expected {expected.get(name)}"
            )
    return dict(state)
