"""The probe: a small classifier of clips that says which attributes a clip shows.

It is trained on synthesiser clips alone (and on their VAE reconstructions) and judges generated ones. Its last
hidden layer gives the features of the Fréchet distance.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from training.attributes import ATTRIBUTES, VALUES

FOLDER = Path(__file__).parent / "probe"
FEATURES = 256


class _Block(nn.Module):
    """Residual (2+1)-D convolution with optional striding: space, then time."""

    def __init__(self, channels_in: int, channels: int, stride: tuple[int, int, int]) -> None:
        super().__init__()
        time, *space = stride
        self.norm1, self.norm2 = nn.BatchNorm3d(channels_in), nn.BatchNorm3d(channels)
        self.space = nn.Conv3d(channels_in, channels, (1, 3, 3), (1, *space), (0, 1, 1))
        self.time = nn.Conv3d(channels, channels, (3, 1, 1), (time, 1, 1), (1, 0, 0))
        self.skip = nn.Conv3d(channels_in, channels, 1) if channels_in != channels else nn.Identity()
        self.pool = nn.AvgPool3d(stride, stride, ceil_mode=True) if max(stride) > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.space(F.silu(self.norm1(x)))
        y = self.time(F.silu(self.norm2(y)))
        return y + self.skip(self.pool(x))


class Probe(nn.Module):
    """Clips (batch, 3, frames=33, height=144, width=256) in [-1, 1] -> (features, logits per attribute)."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.stem = nn.Conv3d(3, width, (3, 6, 6), (2, 4, 4), (1, 1, 1))
        self.blocks = nn.Sequential(
            _Block(width, width, (1, 1, 1)),
            _Block(width, 2 * width, (2, 2, 2)),
            _Block(2 * width, 2 * width, (1, 1, 1)),
            _Block(2 * width, 3 * width, (2, 2, 2)),
            _Block(3 * width, 3 * width, (1, 1, 1)),
            _Block(3 * width, 4 * width, (2, 2, 2)),
            _Block(4 * width, 4 * width, (1, 1, 1)),
        )
        self.norm = nn.BatchNorm3d(4 * width)
        self.features = nn.Linear(8 * width, FEATURES)
        self.heads = nn.ModuleDict({name: nn.Linear(FEATURES, len(VALUES[name])) for name in ATTRIBUTES})

    def forward(self, clips: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        x = F.silu(self.norm(self.blocks(self.stem(clips))))
        x = torch.cat((x.mean(dim=(2, 3, 4)), x.amax(dim=(2, 3, 4))), dim=1)
        features = self.features(x)
        hidden = F.dropout(F.silu(features), 0.1, self.training)
        return features, {name: head(hidden) for name, head in self.heads.items()}


def save(probe: Probe, folder: Path = FOLDER) -> None:
    """Write the probe in fp16."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {
            k: (v.half() if v.is_floating_point() else v).cpu().contiguous()
            for k, v in probe.state_dict().items()
        },
        folder / "probe.safetensors",
        metadata={"width": str(probe.stem.out_channels)},
    )


def load(folder: Path = FOLDER, device: str | torch.device = "cpu") -> Probe:
    """The trained probe in float32, frozen."""
    from safetensors import safe_open

    with safe_open(folder / "probe.safetensors", framework="pt") as file:
        probe = Probe(int(file.metadata()["width"]))
        probe.load_state_dict({k: file.get_tensor(k) for k in file.keys()})  # noqa: SIM118
    return probe.to(device).eval().requires_grad_(False)


@torch.no_grad()
def judge(probe: Probe, frames: torch.Tensor, batch_size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """(features (clips, 256) float32, predictions (clips, 5) int64) of uint8 clips (clips, frames, 3, h, w)."""
    from training.clips import as_input

    device = next(probe.parameters()).device
    features, predictions = [], []
    for batch in frames.split(batch_size):
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            seen, logits = probe(as_input(batch.to(device), torch.float32))
        features.append(seen.float())
        predictions.append(torch.stack([logits[name].argmax(dim=1) for name in ATTRIBUTES], dim=1))
    return torch.cat(features), torch.cat(predictions)


def accuracy(predictions: torch.Tensor, labels: torch.Tensor) -> dict[str, tuple[float, int]]:
    """Per attribute (share right, how many were asked); labels -1 are not asked. Both (clips, 5)."""
    out = {}
    for column, name in enumerate(ATTRIBUTES):
        asked = labels[:, column] >= 0
        right = (predictions[:, column] == labels[:, column]) & asked
        out[name] = (int(right.sum()) / max(1, int(asked.sum())), int(asked.sum()))
    return out
