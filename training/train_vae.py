"""Train veo-mini's VAE on synthesiser clips: L1, gradients at several scales, a small KL.

python -m training.train_vae --out runs/vae --seconds 330
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from training import vae_sequence
from training.architectures import TOY_VAE, VAE
from training.clips import ClipPool, as_frames, as_input
from training.muon import Optimisers
from training.run_log import RunLog

KL_WEIGHT = 2e-4  # per latent element, beside an L1 per sample

# (until this share of the run, frames, height, width, clips): crops first; the whole picture at the end, since
# the middle block's attention and the edges must know it.
PHASES = ((0.45, 17, 144, 128, 16), (0.75, 33, 96, 128, 12), (1.01, 33, 144, 256, 4))
TOY_PHASES = ((0.5, 5, 32, 32, 2), (1.01, 9, 32, 48, 1))


def build(config: dict[str, Any]) -> torch.nn.Module:
    """A fresh AutoencoderKLWan."""
    from diffusers import AutoencoderKLWan

    return AutoencoderKLWan(**config)


def channels_last(network: torch.nn.Module) -> None:
    """Store convolution weights with the channels last, the layout that tensor cores want; in place."""
    for p in network.parameters():
        if p.ndim in (4, 5):
            layout = torch.channels_last if p.ndim == 4 else torch.channels_last_3d
            p.data = p.data.contiguous(memory_format=layout)


def load(folder: Path, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> Any:
    """The trained VAE of a model folder (`folder/vae`), frozen."""
    from diffusers import AutoencoderKLWan

    vae = AutoencoderKLWan.from_pretrained(folder / "vae", torch_dtype=torch.float32)
    return vae.to(device, dtype).eval().requires_grad_(False)


def reconstruction_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """L1 of the samples, and of their differences in x, y and time at full, half and quarter size.

    Both (batch, 3, frames, height, width) in [-1, 1]. The differences keep edges and moving specks (rain,
    snow) that a plain L1 would rather blur.
    """
    error = (output - target).float()
    loss = error.abs().mean() + 2.0 * error.square().mean()
    for scale in range(3):
        if scale:
            error = F.avg_pool3d(error, (1, 2, 2))
        dx, dy = error.diff(dim=-1), error.diff(dim=-2)
        loss = loss + 0.25 * (dx.abs().mean() + dy.abs().mean())
        if error.shape[2] > 1:
            loss = loss + 0.25 * error.diff(dim=2).abs().mean()
    return loss


def crop(pool: torch.Tensor, shape: tuple[int, int, int], rows: torch.Tensor, at: list[int]) -> torch.Tensor:
    """Clips `rows` cut to (frames, height, width) = shape at corner `at`; uint8 in and out."""
    (frames, height, width), (t, y, x) = shape, at
    return pool[rows, t : t + frames, :, y : y + height, x : x + width]


@torch.no_grad()
def psnr(vae: torch.nn.Module, frames: torch.Tensor, batch_size: int = 8) -> torch.Tensor:
    """Reconstruction PSNR of each clip in dB, as 8-bit RGB; frames uint8 (clips, frames, 3, h, w)."""
    dtype = next(vae.parameters()).dtype
    out = []
    for batch in frames.split(batch_size):
        mean, _ = vae_sequence.encode(vae, as_input(batch, dtype))
        again = as_frames(vae_sequence.decode(vae, mean))
        mse = (again.float() - batch.float()).square().mean(dim=(1, 2, 3, 4))
        out.append(10 * torch.log10(255.0**2 / mse.clamp_min(1e-6)))
    return torch.cat(out)


def train(
    pool: ClipPool,
    *,
    seconds: float,
    config: dict[str, Any] = VAE,
    phases: tuple[tuple[float, int, int, int, int], ...] = PHASES,
    log: RunLog | None = None,
    muon_lr: float = 2e-3,
    adamw_lr: float = 1e-3,
    checkpoint: Path | None = None,
    seed: int = 0,
) -> torch.nn.Module:
    """Train for `seconds` on the pool's device; returns the VAE in float32, latents_mean/std not yet set."""
    log = log or RunLog()
    device = pool.frames.device
    on_gpu = device.type == "cuda"
    torch.manual_seed(seed)
    vae = build(config).to(device)
    if on_gpu:
        channels_last(vae)
        torch.backends.cudnn.benchmark = True
    optimisers = Optimisers(
        vae, muon_lr=muon_lr, adamw_lr=adamw_lr, warmup=0.03, plain=("conv_in", "conv_out", "quant_conv")
    )
    dice = torch.Generator().manual_seed(seed)
    step, shown, saved, started = 0, time.monotonic(), time.monotonic(), time.monotonic()
    while (elapsed := time.monotonic() - started) < seconds:
        progress = elapsed / seconds
        _, *shape, batch = next(phase for phase in phases if progress < phase[0])
        rows = torch.randint(len(pool), (batch,), generator=dice).to(device)
        room = zip((pool.frames.shape[1], *pool.frames.shape[3:]), shape, strict=True)
        corner = [int(torch.randint(have - want + 1, (), generator=dice)) for have, want in room]
        frames = crop(pool.frames, tuple(shape), rows, corner)
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            target = as_input(frames, torch.bfloat16 if on_gpu else torch.float32)
            mean, log_variance = vae_sequence.encode(vae, target)
            mean, log_variance = mean.float(), log_variance.float()
            latents = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
            output = vae_sequence.decode(vae, latents)
            rebuilt = reconstruction_loss(output, target)
            kl = 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).mean()
        (rebuilt + KL_WEIGHT * kl).backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimisers.step(progress)
        step += 1
        if time.monotonic() - shown > 15 or step in (1, 5):
            shown = time.monotonic()
            log("vae", step=step, progress=progress, loss=rebuilt.item(), kl=kl.item(), shape=str(shape))
        if checkpoint is not None and time.monotonic() - saved > 90:
            saved = time.monotonic()
            torch.save(vae.state_dict(), checkpoint)
    log("vae", step=step, progress=1.0, seconds_spent=time.monotonic() - started)
    return vae.eval().requires_grad_(False)


@torch.no_grad()
def set_latent_statistics(vae: torch.nn.Module, frames: torch.Tensor, batch_size: int = 16) -> None:
    """Measure each latent channel's mean and standard deviation over clips, and store them in the config."""
    dtype = next(vae.parameters()).dtype
    count, total, squares = 0, 0.0, 0.0
    for batch in frames.split(batch_size):
        mean, _ = vae_sequence.encode(vae, as_input(batch, dtype))
        channels = mean.double().transpose(0, 1).flatten(1)
        count += channels.shape[1]
        total, squares = total + channels.sum(dim=1), squares + channels.square().sum(dim=1)
    mean = total / count
    std = (squares / count - mean.square()).sqrt()
    vae.register_to_config(
        latents_mean=[round(v, 5) for v in mean.tolist()], latents_std=[round(v, 5) for v in std.tolist()]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a model folder: its vae/ is written")
    parser.add_argument("--seconds", type=float, default=330)
    parser.add_argument("--clips", type=int, default=12_000, help="clips drawn and kept on the device")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--toy", action="store_true", help="tiny network and crops, to try the program out")
    args = parser.parse_args()

    from training.export import write_model_folder

    log = RunLog(args.out / "log.jsonl")
    pool = ClipPool(args.clips, args.device, batch_size=4 if args.toy else 64)
    log("clips", count=len(pool), seconds_spent=pool.seconds, per_second=len(pool) / pool.seconds)
    vae = train(
        pool,
        seconds=args.seconds,
        config=TOY_VAE if args.toy else VAE,
        phases=TOY_PHASES if args.toy else PHASES,
        log=log,
    )
    set_latent_statistics(vae, pool.frames[:2048])
    fresh = ClipPool(
        max(2, min(256, args.clips // 8)), args.device, split="held_out", batch_size=4 if args.toy else 64
    )
    values = psnr(vae, fresh.frames)
    log("vae", psnr_db=values.mean().item(), psnr_worst_db=values.min().item(), clips=len(fresh))
    write_model_folder(args.out, vae=vae)


if __name__ == "__main__":
    main()
