"""Train the probe on synthesiser clips and on their VAE reconstructions.

python -m training.train_probe --model runs/vae --seconds 75
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from training import vae_sequence
from training.attributes import ATTRIBUTES, VALUES
from training.clips import ClipPool, as_frames, as_input
from training.muon import Optimisers
from training.probe import FOLDER, Probe, accuracy, judge, save
from training.run_log import RunLog
from training.train_vae import channels_last

_LEFT, _RIGHT = VALUES["camera"].index("pan left"), VALUES["camera"].index("pan right")
_CAMERA = ATTRIBUTES.index("camera")


@torch.no_grad()
def reconstructions(vae: torch.nn.Module, frames: torch.Tensor, batch_size: int = 16) -> torch.Tensor:
    """What the VAE makes of clips: uint8 in and out, (clips, frames, 3, h, w)."""
    out = torch.empty_like(frames)
    device = frames.device
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    for start in range(0, len(frames), batch_size):
        rows = slice(start, start + batch_size)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            mean, _ = vae_sequence.encode(vae, as_input(frames[rows], dtype))
            out[rows] = as_frames(vae_sequence.decode(vae, mean))
    return out


def mirror_some(
    frames: torch.Tensor, labels: torch.Tensor, which: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Flip clips left to right where `which` (clips,) is true; pan left and pan right change places."""
    frames = torch.where(which[:, None, None, None, None], frames.flip(-1), frames)
    camera = labels[:, _CAMERA]
    swapped = torch.where(camera == _LEFT, _RIGHT, torch.where(camera == _RIGHT, _LEFT, camera))
    labels = labels.clone()
    labels[:, _CAMERA] = torch.where(which, swapped, camera)
    return frames, labels


def loss_of(logits: dict[str, torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
    """Sum over attributes of the cross-entropy where the attribute applies; labels (clips, 5), -1: none."""
    total = torch.zeros((), device=labels.device)
    for column, name in enumerate(ATTRIBUTES):
        asked = labels[:, column]
        each = F.cross_entropy(logits[name].float(), asked, ignore_index=-1, reduction="sum")
        total = total + each / (asked >= 0).sum().clamp_min(1)
    return total


def train(
    pool: ClipPool,
    rebuilt: torch.Tensor | None,
    *,
    seconds: float,
    batch: int = 48,
    width: int = 48,
    log: RunLog | None = None,
    seed: int = 0,
) -> Probe:
    """Train on the pool's clips; half of each batch comes from `rebuilt`, the first clips' reconstructions."""
    log = log or RunLog()
    device = pool.frames.device
    on_gpu = device.type == "cuda"
    torch.manual_seed(seed)
    probe = Probe(width).to(device)
    if on_gpu:
        channels_last(probe)
    optimisers = Optimisers(probe, muon_lr=1.5e-3, adamw_lr=2e-3, warmup=0.05, plain=("heads", "stem"))
    dice = torch.Generator().manual_seed(seed)
    step, shown, started = 0, time.monotonic(), time.monotonic()
    while (elapsed := time.monotonic() - started) < seconds:
        half = batch // 2 if rebuilt is not None else 0
        rows = torch.randint(len(pool), (batch - half,), generator=dice).to(device)
        frames, labels = pool.frames[rows], pool.labels[rows]
        if rebuilt is not None:
            rows = torch.randint(len(rebuilt), (half,), generator=dice).to(device)
            frames, labels = torch.cat((frames, rebuilt[rows])), torch.cat((labels, pool.labels[rows]))
        which = (torch.rand(len(frames), generator=dice) < 0.5).to(device)
        frames, labels = mirror_some(frames, labels, which)
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            clips = as_input(frames, torch.bfloat16 if on_gpu else torch.float32)
            clips = clips + 0.04 * torch.rand(len(clips), 1, 1, 1, 1, device=device) * torch.randn_like(clips)
            loss = loss_of(probe(clips)[1], labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(probe.parameters(), 5.0)
        optimisers.step(elapsed / seconds)
        step += 1
        if time.monotonic() - shown > 15 or step in (1, 5):
            shown = time.monotonic()
            log("probe", step=step, progress=elapsed / seconds, loss=loss.item())
    log("probe", step=step, progress=1.0, seconds_spent=time.monotonic() - started)
    return probe.eval().requires_grad_(False)


def confusions(predictions: torch.Tensor, labels: torch.Tensor, most: int = 12) -> list[str]:
    """The commonest mistakes, "attribute: shown -> taken for (count)"; both (clips, 5)."""
    counts: dict[tuple[int, int, int], int] = {}
    for column in range(len(ATTRIBUTES)):
        wrong = (labels[:, column] >= 0) & (predictions[:, column] != labels[:, column])
        for shown, seen in zip(
            labels[wrong, column].tolist(), predictions[wrong, column].tolist(), strict=True
        ):
            counts[column, shown, seen] = counts.get((column, shown, seen), 0) + 1
    ranked = sorted(counts.items(), key=lambda item: -item[1])[:most]
    return [
        f"{ATTRIBUTES[c]}: {VALUES[ATTRIBUTES[c]][shown]} -> {VALUES[ATTRIBUTES[c]][seen]} ({count})"
        for (c, shown, seen), count in ranked
    ]


def report(probe: Probe, fresh: ClipPool, frames: torch.Tensor, log: RunLog, name: str) -> None:
    """Log the accuracy on labelled clips and the commonest mistakes, with the scenes where they happen."""
    _, predictions = judge(probe, frames)
    log(name, **{k: round(v, 4) for k, (v, _) in accuracy(predictions, fresh.labels).items()})
    for line in confusions(predictions, fresh.labels):
        log(name, confusion=line)
    for column, attribute in enumerate(ATTRIBUTES[1:], start=1):
        asked = fresh.labels[:, column] >= 0
        wrong = asked & (predictions[:, column] != fresh.labels[:, column])
        per_scene = {
            scene: f"{int(wrong[fresh.labels[:, 0] == i].sum())}/{int(asked[fresh.labels[:, 0] == i].sum())}"
            for i, scene in enumerate(VALUES["scene"])
            if wrong[fresh.labels[:, 0] == i].any()
        }
        log(name, attribute=attribute, wrong_by_scene=str(per_scene))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="model folder with the trained vae/")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--clips", type=int, default=12_000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    from training.train_vae import load

    log = RunLog(args.model / "log.jsonl")
    pool = ClipPool(args.clips, args.device)
    vae = load(args.model, args.device)
    rebuilt = reconstructions(vae, pool.frames[: args.clips // 3])
    probe = train(pool, rebuilt, seconds=args.seconds, log=log)
    save(probe, args.out)
    fresh = ClipPool(max(16, args.clips // 6), args.device, split="held_out")
    report(probe, fresh, fresh.frames, log, "probe on real clips")
    report(probe, fresh, reconstructions(vae, fresh.frames), log, "probe on reconstructions")


if __name__ == "__main__":
    main()
