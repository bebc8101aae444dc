"""Train veo-mini's VAE on synthesiser clips: L1, gradients at several scales, a small KL.

    python -m training.train_vae --out runs/vae --seconds 330
    python -m training.train_vae --out runs/vae --decoder-only --seconds 420

With --decoder-only, goes on with the decoder of the folder's VAE. The encoder and the latent statistics stay as they
are, so that latents keep their meaning and a transformer trained on them stays valid.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from training import vae_sequence
from training.architectures import TOY_VAE, VAE
from training.clips import ClipPool, as_frames, as_input
from training.ema import Ema
from training.muon import Optimisers
from training.run_log import RunLog

KL_WEIGHT = 2e-4  # per latent element, beside an L1 per sample

# (until this share of the run, frames, height, width, clips): crops first; the whole picture at the end, since
# the middle block's attention and the edges must know it.
PHASES = ((0.45, 17, 144, 128, 16), (0.75, 33, 96, 128, 12), (1.01, 33, 144, 256, 4))
TOY_PHASES = ((0.5, 5, 32, 32, 2), (1.01, 9, 32, 48, 1))

# The decoder alone: (until this share of the run, latent frames, clips). Always whole pictures, since a crop's latents
# would meet borders that the decoder never sees; a clip's first latent frames are those of a shorter clip.
DECODER_PHASES = ((0.4, 5, 8), (1.01, 9, 4))
TOY_DECODER_PHASES = ((0.5, 1, 1), (1.01, 2, 1))
# The share of the run after which the loss is the log of each clip's squared error alone, which is what the mean
# PSNR of clips measures. Before, edges and motion have their say too.
PSNR_ALONE = 0.5
DECODER_EMA_RATE = 0.998


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


def log_error(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean over clips of the log of the mean squared error: -PSNR but for a factor and a constant.

    Both (batch, 3, frames, height, width) in [-1, 1]. The small constant is a tenth of a grey level, squared.
    """
    error = (output - target).float().square().mean(dim=(1, 2, 3, 4))
    return (error + (0.1 / 127.5) ** 2).log().mean()


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


def finish_decoder(
    vae: Any,
    pool: ClipPool,
    *,
    seconds: float,
    phases: tuple[tuple[float, int, int], ...] = DECODER_PHASES,
    log: RunLog | None = None,
    muon_lr: float = 1e-3,
    adamw_lr: float = 5e-4,
    checkpoint: Path | None = None,
    save_every_s: float = 60.0,
    seed: int = 0,
) -> Any:
    """Train the decoder of a trained VAE for `seconds`, in place, on the posterior means of the pool's clips.

    Returns the VAE with the running mean of the decoder's weights. The encoder, quant_conv and the latent statistics are
    not touched. `checkpoint`: state is written here every `save_every_s` and at the end, and read from here
    if it exists, so that a killed run goes on where it was and a finished one is not trained again.
    """
    from training.latents import encode_normalised, statistics

    log = log or RunLog()
    device = pool.frames.device
    on_gpu = device.type == "cuda"
    torch.manual_seed(seed)
    latents = encode_normalised(vae, pool.frames)
    latents_mean, latents_std = statistics(vae, device)
    trained = torch.nn.ModuleDict({"decoder": vae.decoder, "post_quant_conv": vae.post_quant_conv})
    trained.requires_grad_(True).train()
    if on_gpu:
        channels_last(vae)
        torch.backends.cudnn.benchmark = True
    optimisers = Optimisers(
        trained, muon_lr=muon_lr, adamw_lr=adamw_lr, warmup=0.03, plain=("conv_in", "conv_out", "quant_conv")
    )
    ema = Ema(trained, DECODER_EMA_RATE)
    step, spent_before = 0, 0.0
    if checkpoint is not None and checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        trained.load_state_dict(state["decoder"])
        optimisers.load_state_dict(state["optimisers"])
        ema.weights, step, spent_before = state["ema"], state["step"], state["spent"]
        log("decoder", resumed_at_step=step, spent=spent_before)

    def save(spent: float) -> None:
        if checkpoint is not None:
            state = {
                "decoder": trained.state_dict(),
                "optimisers": optimisers.state_dict(),
                "ema": ema.weights,
                "step": step,
                "spent": spent,
            }
            part = checkpoint.with_suffix(".part")
            torch.save(state, part)
            part.replace(checkpoint)

    dice = torch.Generator().manual_seed(seed + step)
    running = torch.zeros((), device=device)
    started = shown = saved = time.monotonic()
    while (elapsed := spent_before + time.monotonic() - started) < seconds:
        progress = elapsed / seconds
        _, length, batch = next(phase for phase in phases if progress < phase[0])
        rows = torch.randint(len(pool), (batch,), generator=dice).to(device)
        frames = pool.frames[rows, : 4 * length - 3]
        codes = latents[rows, :, :length].float() * latents_std + latents_mean
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            target = as_input(frames, torch.float32)
            output = vae_sequence.decode(vae, codes)
            error = log_error(output, target)
            loss = error
            if progress < PSNR_ALONE:
                loss = 0.5 * error + 5.0 * reconstruction_loss(output, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimisers.step(progress)
        step += 1
        ema.update(trained, step)
        running = error.detach() if step == 1 else running.lerp(error.detach(), 0.02)
        now = time.monotonic()
        if now - shown > 15 or step in (1, 5):
            shown = now
            # 127.5 grey levels a unit, 255 of them the peak.
            psnr_db = -10 / math.log(10) * (running.item() - math.log(4.0))
            log("decoder", step=step, progress=progress, training_psnr_db=psnr_db, latent_frames=length)
        if now - saved > save_every_s:
            saved = now
            save(elapsed)
    save(max(elapsed, seconds))
    log("decoder", step=step, progress=1.0, seconds_spent=time.monotonic() - started)
    ema.copy_to(trained)
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
    parser.add_argument(
        "--decoder-only", action="store_true", help="go on with the folder's VAE, its encoder frozen"
    )
    parser.add_argument("--toy", action="store_true", help="tiny network and crops, to try the program out")
    args = parser.parse_args()

    from training.export import write_model_folder

    log = RunLog(args.out / "log.jsonl")
    batch_size = 4 if args.toy else 64
    pool = ClipPool(args.clips, args.device, batch_size=batch_size)
    log("clips", count=len(pool), seconds_spent=pool.seconds, per_second=len(pool) / pool.seconds)
    fresh = ClipPool(max(2, min(256, args.clips // 8)), args.device, split="held_out", batch_size=batch_size)
    checkpoint = args.out / "decoder.pt"
    if args.decoder_only:
        vae = load(args.out, args.device)
        log("vae before", psnr_db=psnr(vae, fresh.frames).mean().item(), clips=len(fresh))
        phases = TOY_DECODER_PHASES if args.toy else DECODER_PHASES
        finish_decoder(vae, pool, seconds=args.seconds, phases=phases, log=log, checkpoint=checkpoint)
    else:
        config, crops = (TOY_VAE, TOY_PHASES) if args.toy else (VAE, PHASES)
        vae = train(pool, seconds=args.seconds, config=config, phases=crops, log=log)
        set_latent_statistics(vae, pool.frames[:2048])
    values = psnr(vae, fresh.frames)
    log("vae", psnr_db=values.mean().item(), psnr_worst_db=values.min().item(), clips=len(fresh))
    write_model_folder(args.out, vae=vae)
    checkpoint.unlink(missing_ok=True)  # or the next run would take itself for finished


if __name__ == "__main__":
    main()
