"""Muon for every weight of two or more dimensions of a network, batched over matrices of one shape.

Keller Jordan's optimiser (https://kellerjordan.github.io/posts/muon/): momentum, then the nearest
semi-orthogonal matrix by five Newton-Schulz steps. `torch.optim.Muon` does one matrix at a time, which on a
small network is mostly kernel launches; here equal shapes are stacked, and convolutions are taken as
(out, in*kernel) matrices. The update is scaled by 0.2*sqrt(max(rows, columns)), so that learning rates and
weight decay are those of AdamW (arXiv:2502.16982, section 2.2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch


def orthogonalise(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Quintic Newton-Schulz iteration; matrices (count, rows, columns), any dtype, worked in bfloat16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16()
    if tall := x.shape[1] > x.shape[2]:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay; all parameters must have >= 2 dimensions."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 1e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[tuple[int, int], list[torch.nn.Parameter]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[(p.shape[0], p[0].numel())].append(p)
            for (rows, columns), params in by_shape.items():
                gradients = [p.grad for p in params]
                momenta = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in params]
                torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
                ahead = torch._foreach_lerp(gradients, momenta, group["momentum"])
                update = orthogonalise(torch.stack([g.reshape(rows, columns) for g in ahead]))
                scale = -group["lr"] * 0.2 * max(rows, columns) ** 0.5
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(
                    params,
                    [u.to(p.dtype).reshape(p.shape) for u, p in zip(update, params, strict=True)],
                    alpha=scale,
                )


def split_parameters(
    model: torch.nn.Module, plain: tuple[str, ...] = ()
) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """(for Muon, for AdamW): hidden matrices, and the rest: vectors, tables, and names that contain `plain`."""
    muon, adamw = [], []
    for name, p in model.named_parameters():
        matrix = p.ndim >= 2 and min(p.shape[0], p[0].numel()) > 1 and not any(key in name for key in plain)
        matrix = matrix and name.endswith("weight")
        (muon if matrix else adamw).append(p)
    return muon, adamw


class Optimisers:
    """Muon and AdamW as one, on a schedule of progress in [0, 1]: a linear warm-up, then linear to zero."""

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        muon_lr: float,
        adamw_lr: float,
        warmup: float,
        weight_decay: float = 0.01,
        plain: tuple[str, ...] = (),
    ) -> None:
        muon, adamw = split_parameters(model, plain)
        on_gpu = next(model.parameters()).is_cuda
        self.both = (
            Muon(muon, lr=muon_lr, weight_decay=weight_decay),
            torch.optim.AdamW(adamw, lr=adamw_lr, betas=(0.9, 0.99), weight_decay=0.0, fused=on_gpu),
        )
        self.peaks = (muon_lr, adamw_lr)
        self.warmup = warmup

    def step(self, progress: float) -> None:
        """One step at `progress` (share of the run that is over), then the gradients are dropped."""
        factor = min(progress / self.warmup, 1.0) if self.warmup else 1.0
        factor = max(factor, 0.01) * min(1.0, (1.0 - progress) / (1.0 - self.warmup))
        for optimiser, peak in zip(self.both, self.peaks, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = peak * max(factor, 0.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict]:
        return [optimiser.state_dict() for optimiser in self.both]

    def load_state_dict(self, states: list[dict]) -> None:
        for optimiser, state in zip(self.both, states, strict=True):
            optimiser.load_state_dict(state)
