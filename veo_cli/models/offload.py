"""Where a model's weights lie while they are not in use. No choice here changes a pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Offload = Literal["auto", "none", "model", "group"]
Layout = Literal["none", "model", "group"]  # all resident; one component resident; one layer resident

_SHARE_FOR_WEIGHTS = 0.8  # the rest is for activations and latents


def choose_offload(
    asked: Offload, component_bytes: Mapping[str, int], *, device: str, budget_bytes: int | None = None
) -> Layout:
    """The layout asked for; for "auto" the first of none, model, group whose weights fit into the budget.

    component_bytes: as the components will lie on the device. budget_bytes: device memory that may be used;
    None: what is free now. On a CPU there is nothing to choose.
    """
    if device == "cpu":
        return "none"
    if asked != "auto":
        return asked
    for_weights = _SHARE_FOR_WEIGHTS * (free_bytes(device) if budget_bytes is None else budget_bytes)
    if sum(component_bytes.values()) <= for_weights:
        return "none"
    return "model" if max(component_bytes.values()) <= for_weights else "group"


def free_bytes(device: str) -> int:
    """Device memory that is free now."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def group_offload(module: torch.nn.Module, device: str) -> None:
    """Keep a module's layers on the host and bring each to the device as its turn comes."""
    import torch
    from diffusers.hooks import apply_group_offloading

    apply_group_offloading(
        module,
        onload_device=torch.device(device),
        offload_device=torch.device("cpu"),
        offload_type="leaf_level",
        use_stream=device.startswith("cuda"),
    )
