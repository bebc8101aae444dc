"""How good veo-mini is: the table of bars, with sample counts.

    python -m training.evaluate                                  everything, on a GPU (about 2 minutes)
    python -m training.evaluate --clips 24 --device cpu          a small sample
    python -m training.evaluate --prompts FILE.tsv               accuracy on somebody's prompts, 4 seeds each
    python -m training.evaluate --contact FILE.png               24 held-out prompts x 4 frames

Clips are sampled as `veo render` does by default (steps, guidance and flow shift of the folder's veo.json).
The TSV has the columns prompt, scene, time, weather, camera, colour; an empty cell was not asked for.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from training import probe as probes
from training.attributes import ATTRIBUTES, VALUES
from training.clips import ClipPool
from training.sample import decode_frames, sample_latents
from training.text_states import TextEncoder
from training.train_probe import confusions, reconstructions
from training.train_vae import psnr

ROOT = Path(__file__).parent.parent
MODEL = ROOT / "weights" / "veo-mini"
RESULTS = ROOT / "benchmarks" / "results" / "veo_mini.json"
BARS = {
    "attribute accuracy": ">= 0.85 each",
    "probe on real clips": ">= 0.98 each",
    "vae psnr": ">= 32 dB",
    "frechet / floor": "<= 6",
    "flicker and warped error / real": "<= 1.5",
}


class Sampler:
    """A loaded model folder: prompts and seeds to uint8 clips (clips, 33, 3, 144, 256)."""

    def __init__(self, folder: Path, device: str | torch.device) -> None:
        from diffusers import WanTransformer3DModel

        from training.train_transformer import compile_blocks
        from training.train_vae import load

        self.device = torch.device(device)
        self.vae = load(folder, device)
        transformer = WanTransformer3DModel.from_pretrained(folder / "transformer", torch_dtype=torch.float32)
        self.transformer = transformer.to(device).eval().requires_grad_(False)
        if self.device.type == "cuda":
            for name, table in transformer.rope.named_buffers():
                setattr(transformer.rope, name, table.float())
            compile_blocks(transformer)
        self.settings = json.loads((folder / "veo.json").read_text(encoding="utf-8"))
        self.encoder = TextEncoder(device)

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], **changed: Any) -> torch.Tensor:
        settings = {**self.settings, **changed}
        on_gpu = self.device.type == "cuda"
        latents = sample_latents(
            self.transformer,
            self.encoder.states(prompts),
            self.encoder.states([""]),
            seeds,
            steps=settings["num_inference_steps"],
            guidance=settings["guidance_scale"],
            flow_shift=settings["flow_shift"],
            batch_size=64 if on_gpu else 1,
        )
        return decode_frames(self.vae, latents, 16 if on_gpu else 1)


def held_out(count: int) -> tuple[list[str], torch.Tensor]:
    """`count` prompts in held-out wordings, and what they ask for: (prompts, 5) int64, -1 not asked."""
    from training.captions import held_out_prompts

    prompts = held_out_prompts(count)
    rows = [
        [VALUES[a].index(p.mentioned[a]) if a in p.mentioned else -1 for a in ATTRIBUTES] for p in prompts
    ]
    return [p.text for p in prompts], torch.tensor(rows)


def read_prompts(path: Path) -> tuple[list[str], torch.Tensor]:
    """Prompts of a TSV file and what they ask for: (prompts, 5) int64, -1 not asked."""
    texts, rows = [], []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            texts.append(row["prompt"])
            rows.append([VALUES[a].index(row[a]) if row.get(a) else -1 for a in ATTRIBUTES])
    return texts, torch.tensor(rows)


def frechet(a: torch.Tensor, b: torch.Tensor) -> float:
    """Fréchet distance of two sets of features (clips, dimensions), as Gaussians (Heusel et al. 2017)."""
    a, b = a.double().cpu(), b.double().cpu()
    covariances = [torch.cov(x.T) for x in (a, b)]
    values, vectors = torch.linalg.eigh(covariances[0])
    root = vectors * values.clamp_min(0).sqrt() @ vectors.T
    cross = torch.linalg.eigvalsh(root @ covariances[1] @ root).clamp_min(0).sqrt().sum()
    means = (a.mean(dim=0) - b.mean(dim=0)).square().sum()
    return float(means + covariances[0].trace() + covariances[1].trace() - 2 * cross)


def flicker(frames: torch.Tensor) -> float:
    """Mean absolute second difference in time, in 8-bit levels; uint8 (clips, frames, 3, h, w)."""
    per_clip = [(c[2:].float() - 2 * c[1:-1].float() + c[:-2].float()).abs().mean() for c in frames.unbind(0)]
    return float(torch.stack(per_clip).mean())


def warped_error(frames: torch.Tensor, reach: int = 4) -> float:
    """Mean absolute error, in 8-bit levels, of each frame rebuilt from the one before by block matching.

    Blocks of 8x8 at half size, each moved by up to `reach` pixels: what motion does not explain is left.
    frames: uint8 (clips, frames, 3, h, w).
    """
    per_clip = []
    for clip in frames.unbind(0):
        small = F.avg_pool2d(clip.float(), 2)
        before = F.pad(small[:-1], (reach,) * 4, mode="replicate")
        now = small[1:]
        height, width = now.shape[-2:]
        best = None
        for dy in range(2 * reach + 1):
            for dx in range(2 * reach + 1):
                error = (now - before[..., dy : dy + height, dx : dx + width]).abs().mean(dim=1, keepdim=True)
                error = F.avg_pool2d(error, 8)
                best = error if best is None else torch.minimum(best, error)
        per_clip.append(best.mean())
    return float(torch.stack(per_clip).mean())


def score(
    probe: probes.Probe, frames: torch.Tensor, wanted: torch.Tensor
) -> tuple[dict[str, Any], torch.Tensor, list[str]]:
    """(accuracy per attribute with counts, features, commonest mistakes) of clips against what was asked."""
    features, predictions = probes.judge(probe, frames)
    wanted = wanted.to(predictions.device)
    accuracies = probes.accuracy(predictions, wanted)
    table = {name: {"accuracy": round(v, 4), "asked": n} for name, (v, n) in accuracies.items() if n}
    return table, features, confusions(predictions, wanted)


def contact_sheet(frames: torch.Tensor, texts: Sequence[str], path: Path, columns: int = 3) -> None:
    """A PNG of clips, four frames of each in a row with its prompt above; uint8 (clips, frames, 3, h, w)."""
    import textwrap

    from PIL import Image, ImageDraw

    shown = [0, 11, 21, 32]
    scale = 2  # a frame is drawn at half size, four across
    height, width = frames.shape[3] // scale, frames.shape[4] // scale
    cell = (4 * width + 6, height + 34)
    rows = -(-len(texts) // columns)
    sheet = Image.new("RGB", (cell[0] * columns, cell[1] * rows), "white")
    draw = ImageDraw.Draw(sheet)
    for n, (clip, text) in enumerate(zip(frames, texts, strict=True)):
        x, y = (n % columns) * cell[0], (n // columns) * cell[1]
        draw.text((x + 2, y + 2), "\n".join(textwrap.wrap(text, 84)[:2]), fill="black")
        for k, t in enumerate(shown):
            picture = Image.fromarray(clip[min(t, len(clip) - 1)].permute(1, 2, 0).cpu().numpy())
            sheet.paste(picture.resize((width, height), Image.LANCZOS), (x + k * width, y + 30))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, optimize=True)


def evaluate(
    sampler: Sampler,
    probe: probes.Probe,
    *,
    clips: int = 512,
    frechet_clips: int = 2048,
    prompts: Path | None = None,
    seeds_each: int = 4,
    contact: Path | None = None,
) -> dict[str, Any]:
    """All figures as one JSON-able dict; prints as it goes."""
    out: dict[str, Any] = {"bars": BARS, "sampling": sampler.settings}
    device = sampler.device
    started = time.monotonic()

    def show(name: str, value: Any) -> None:
        out[name] = value
        print(f"[{time.monotonic() - started:6.1f} s] {name}: {json.dumps(value)}", flush=True)

    if contact is not None:
        texts, _ = held_out(24)
        contact_sheet(sampler(texts, range(len(texts))), texts, contact)
        show("contact sheet", contact.name)

    if clips:
        texts, wanted = held_out(clips)
        made = sampler(texts, range(clips))
        table, features, mistakes = score(probe, made, wanted)
        show("held-out captions", {"clips": clips, "attributes": table})
        show("held-out mistakes", mistakes)

    if prompts is not None:
        texts, wanted = read_prompts(prompts)
        repeated = [text for text in texts for _ in range(seeds_each)]
        frames = sampler(repeated, [s for _ in texts for s in range(seeds_each)])
        table, _, mistakes = score(probe, frames, wanted.repeat_interleave(seeds_each, dim=0))
        show("prompts file", {"file": prompts.name, "clips": len(repeated), "attributes": table})
        show("prompts file mistakes", mistakes)

    if clips:
        real = ClipPool(
            max(clips, frechet_clips), device, split="held_out", batch_size=64 if clips > 64 else 4
        )
        table, real_features, mistakes = score(probe, real.frames, real.labels)
        show("probe on real clips", {"clips": len(real), "attributes": table})
        show("probe mistakes", mistakes)
        sample = real.frames[: min(clips, 512)]
        values = psnr(sampler.vae, sample, 8 if len(sample) > 8 else 2)
        show(
            "vae psnr",
            {"clips": len(sample), "mean_db": float(values.mean()), "worst_db": float(values.min())},
        )
        rebuilt, _, _ = score(probe, reconstructions(sampler.vae, sample), real.labels[: len(sample)])
        show("probe on reconstructions", {"clips": len(sample), "attributes": rebuilt})
        # The same captions' own clips: what the model was asked for, drawn by the synthesiser.
        count = min(len(made), 128)
        motion = {"clips": count}
        for name, measure in (("flicker", flicker), ("warped_error", warped_error)):
            ours, theirs = measure(made[:count]), measure(real.frames[:count])
            motion[name] = {"generated": ours, "real": theirs, "ratio": round(ours / theirs, 4)}
        show("temporal", motion)
        del rebuilt, sample

    if clips and frechet_clips:
        texts, _ = held_out(frechet_clips)
        features = [features] if frechet_clips == clips else []
        for start in range(0, frechet_clips if not features else 0, 256):
            some = range(start, min(start + 256, frechet_clips))
            features.append(probes.judge(probe, sampler([texts[i] for i in some], some))[0])
        generated = torch.cat(features)
        del real
        other = ClipPool(frechet_clips, device, split="floor", batch_size=64 if clips > 64 else 4)
        other_features, _ = probes.judge(probe, other.frames)
        floor = frechet(real_features[:frechet_clips], other_features)
        distance = frechet(generated, real_features[:frechet_clips])
        show(
            "frechet",
            {
                "clips": frechet_clips,
                "generated_vs_real": distance,
                "real_vs_real_floor": floor,
                "ratio": round(distance / floor, 3),
            },
        )
    out["seconds"] = round(time.monotonic() - started, 1)
    return out


def machine(device: torch.device) -> dict[str, Any]:
    """What the figures were measured on."""
    import diffusers

    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )
    return {
        "device": name,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": " ".join(("python -m training." + Path(sys.argv[0]).stem, *sys.argv[1:])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--probe", type=Path, default=probes.FOLDER)
    parser.add_argument("--clips", type=int, default=None, help="held-out captions; 512 on a GPU")
    parser.add_argument(
        "--frechet", type=int, default=None, help="clips for the Fréchet distance; 2048 on a GPU"
    )
    parser.add_argument("--prompts", type=Path, help="TSV of prompts and what they ask for")
    parser.add_argument("--seeds", type=int, default=4, help="seeds for each prompt of the TSV")
    parser.add_argument("--contact", type=Path, help="write a contact sheet here (PNG)")
    parser.add_argument("--out", type=Path, help=f"JSON of the figures; default {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    on_gpu = args.device != "cpu"
    only = args.clips is None and (args.prompts is not None or args.contact is not None)
    clips = args.clips if args.clips is not None else 0 if only else 512 if on_gpu else 24
    frechet_clips = args.frechet if args.frechet is not None else 0 if only or not on_gpu else 2048
    figures = evaluate(
        Sampler(args.model, args.device),
        probes.load(args.probe, args.device),
        clips=clips,
        frechet_clips=frechet_clips,
        prompts=args.prompts,
        seeds_each=args.seeds,
        contact=args.contact,
    )
    out = args.out or (None if only else RESULTS)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(
            json.dumps({**machine(torch.device(args.device)), **figures}, indent=2, ensure_ascii=False) + "\n"
        )


if __name__ == "__main__":
    main()
