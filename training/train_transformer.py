"""Train veo-mini's transformer: rectified flow on VAE latents, text by cross-attention.

    python -m training.train_transformer --model runs/veo-mini --clips 40000 --seconds 780

x_t = (1 - t) x_0 + t noise, and the network predicts noise - x_0 from (x_t, 1000 t, text), which is what
diffusers' flow schedulers expect. t is logit-normal, shifted towards noise. One caption in ten is empty.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from training.architectures import TOY_TRANSFORMER, TRANSFORMER
from training.ema import Ema
from training.export import write_model_folder
from training.latents import LatentSet, build
from training.muon import Optimisers
from training.run_log import RunLog

CAPTION_DROPOUT = 0.1
T_SHIFT = 2.0
EMA_RATES = (0.998, 0.9995)

# How often a batch is of shorter clips (latent frames: share of steps). The causal VAE makes the first latent
# frames of a long clip those of the short one.
SHORTER = ((5, 0.06), (3, 0.03))


def draw_t(count: int, device: torch.device) -> torch.Tensor:
    """Times (count,) in (0, 1): logit-normal, shifted by T_SHIFT, with one in ten uniform for the ends."""
    t = torch.sigmoid(torch.randn(count, device=device))
    t = torch.where(torch.rand(count, device=device) < 0.1, torch.rand(count, device=device), t)
    return T_SHIFT * t / (1 + (T_SHIFT - 1) * t)


def new_transformer(config: dict[str, Any], device: str | torch.device) -> Any:
    """A fresh WanTransformer3DModel, its blocks and its output starting as the identity and zero."""
    from diffusers import WanTransformer3DModel

    model = WanTransformer3DModel(**config)
    torch.nn.init.zeros_(model.proj_out.weight)
    torch.nn.init.zeros_(model.proj_out.bias)
    for block in model.blocks:
        # Gates start at zero (adaLN-zero); cross-attention has no gate, so its output does.
        with torch.no_grad():
            block.scale_shift_table[:, [2, 5]] = 0.0
            block.attn2.to_out[0].weight.zero_()
            block.attn2.to_out[0].bias.zero_()
    # 1-D rotary tables in float64 would make all of attention's inputs double on the way.
    for name, table in model.rope.named_buffers():
        setattr(model.rope, name, table.float())
    return model.to(device)


def compile_blocks(model: Any) -> None:
    """Compile each block for each shape it meets; the blocks share what is compiled."""
    torch._dynamo.config.recompile_limit = 64
    for block in model.blocks:
        block.compile(fullgraph=True, dynamic=False)


def train(
    data: LatentSet,
    *,
    seconds: float,
    config: dict[str, Any] = TRANSFORMER,
    batch: int = 128,
    log: RunLog | None = None,
    checkpoint: Path | None = None,
    start_from: Path | None = None,
    snapshot: Path | None = None,
    muon_lr: float = 2e-3,
    adamw_lr: float = 1e-3,
    watch: Callable[[Any], dict[str, float]] | None = None,
    watch_every_s: float = 150.0,
    save_every_s: float = 60.0,
    compiled: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Train for `seconds`; returns {"ema 0.998": model, ...} in float32, one for each EMA rate.

    `start_from`: a model folder whose transformer/ is gone on with (fresh optimiser, same schedule).
    `checkpoint`: state is written here every `save_every_s` and at the end, and read from here if it exists, so that a
    killed run goes on where it was and a finished one is not trained again. `snapshot`: a model folder whose
    transformer/ is then the slow EMA so far. `watch(model)`: called now and then with the slow EMA, its figures are
    logged.
    """
    log = log or RunLog()
    device = data.latents.device
    on_gpu = device.type == "cuda"
    torch.manual_seed(seed)
    model = new_transformer(config, device)
    if start_from is not None:
        from diffusers import WanTransformer3DModel

        before = WanTransformer3DModel.from_pretrained(start_from / "transformer", torch_dtype=torch.float32)
        model.load_state_dict(before.state_dict())
    optimisers = Optimisers(
        model,
        muon_lr=muon_lr,
        adamw_lr=adamw_lr,
        warmup=0.03,
        plain=("patch_embedding", "proj_out", "condition_embedder.time", "condition_embedder.text"),
    )
    emas = [Ema(model, rate) for rate in EMA_RATES]
    spare = copy.deepcopy(model).eval().requires_grad_(False)
    step, spent_before = 0, 0.0
    if checkpoint is not None and checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimisers.load_state_dict(state["optimisers"])
        for ema, weights in zip(emas, state["emas"], strict=True):
            ema.weights = weights
        step, spent_before = state["step"], state["spent"]
        log("transformer", resumed_at_step=step, spent=spent_before)

    def save(spent: float) -> None:
        if checkpoint is not None:
            state = {
                "model": model.state_dict(),
                "optimisers": optimisers.state_dict(),
                "emas": [ema.weights for ema in emas],
                "step": step,
                "spent": spent,
            }
            part = checkpoint.with_suffix(".part")
            torch.save(state, part)
            part.replace(checkpoint)
        if snapshot is not None:
            write_model_folder(snapshot, transformer=emas[-1].copy_to(new_transformer(config, device)))

    if compiled:
        compile_blocks(model)
        compile_blocks(spare)
    dice = torch.Generator().manual_seed(seed + 1 + step)
    lengths = [n for n, _ in SHORTER]
    shares = torch.tensor([1.0 - sum(s for _, s in SHORTER), *(s for _, s in SHORTER)])
    full = data.latents.shape[2]
    order = torch.empty(0, dtype=torch.int64, device=device)
    running = torch.zeros((), device=device)
    started = shown = saved = watched = time.monotonic()
    shown_step = step
    while (elapsed := spent_before + time.monotonic() - started) < seconds:
        if len(order) < batch:
            order = torch.cat((order, torch.randperm(len(data), device=device)))
        rows, order = order[:batch], order[batch:]
        which = int(torch.multinomial(shares, 1, generator=dice))
        length = full if which == 0 else min(full, lengths[which - 1])
        clean = data.latents[rows, :, :length].float()
        choice = torch.randint(data.caption_rows.shape[1], (len(rows),), device=device)
        text = data.states[data.caption_rows[rows, choice]]
        drop = torch.rand(len(rows), device=device) < CAPTION_DROPOUT
        text = torch.where(drop[:, None, None], data.empty_state, text)
        t = draw_t(len(rows), device)
        noise = torch.randn_like(clean)
        mix = t.view(-1, 1, 1, 1, 1)
        noisy = (1 - mix) * clean + mix * noise
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            if on_gpu:
                noisy, text = noisy.bfloat16(), text.bfloat16()
            velocity = model(noisy, 1000 * t, text if on_gpu else text.float(), return_dict=False)[0]
        loss = (velocity.float() - (noise - clean)).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimisers.step(elapsed / seconds)
        step += 1
        for ema in emas:
            ema.update(model, step)
        running = loss.detach() if step == 1 else running.lerp(loss.detach(), 0.02)
        now = time.monotonic()
        if now - shown > 15 or step in (1, 2, 10):
            log(
                "transformer",
                step=step,
                progress=elapsed / seconds,
                loss=running.item(),
                clips_per_second=(step - shown_step) * batch / (now - shown),
            )
            shown, shown_step = time.monotonic(), step
        if now - saved > save_every_s:
            saved = now
            save(elapsed)
        if watch is not None and now - watched > watch_every_s:
            log("transformer, held-out", **watch(emas[-1].copy_to(spare)))
            watched = time.monotonic()
    save(max(elapsed, seconds))
    log("transformer", step=step, progress=1.0, loss=running.item(), clips_seen=step * batch)
    # Not copies of `spare`: its blocks may be compiled.
    finished = [new_transformer(config, device).eval().requires_grad_(False) for _ in emas]
    return {f"ema {ema.rate}": ema.copy_to(m) for ema, m in zip(emas, finished, strict=True)}


def watcher(vae: Any, probe_folder: Path, device: str, clips: int = 192) -> Callable[[Any], dict[str, float]]:
    """A function of a model: its accuracy per attribute on held-out captions, sampled in 16 steps."""
    from training import probe as probes
    from training.evaluate import held_out
    from training.sample import decode_frames, sample_latents
    from training.text_states import TextEncoder

    probe = probes.load(probe_folder, device)
    texts, wanted = held_out(clips)
    encoder = TextEncoder(device)
    states, empty = encoder.states(texts), encoder.states([""])
    wanted = wanted.to(device)

    def look(model: Any) -> dict[str, float]:
        started = time.monotonic()
        latents = sample_latents(
            model, states, empty, range(clips), steps=16, guidance=4.0, flow_shift=3.0, batch_size=64
        )
        _, predictions = probes.judge(probe, decode_frames(vae, latents))
        figures = {name: round(v, 3) for name, (v, _) in probes.accuracy(predictions, wanted).items()}
        return {**figures, "seconds_spent": time.monotonic() - started}

    return look


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, required=True, help="model folder with vae/; transformer/ is written"
    )
    parser.add_argument("--seconds", type=float, default=780)
    parser.add_argument(
        "--clips", type=int, default=40_000, help="clips drawn; as many mirror images are added"
    )
    parser.add_argument(
        "--continue", dest="go_on", action="store_true", help="start from the folder's transformer"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--probe", type=Path, help="folder of a trained probe: watch held-out captions with it"
    )
    parser.add_argument("--toy", action="store_true", help="tiny network and batch, to try the program out")
    args = parser.parse_args()

    from training.train_vae import load

    log = RunLog(args.model / "log.jsonl")
    vae = load(args.model, args.device)
    data = build(vae, args.clips, device=args.device, workers=0 if args.toy else 12, log=log)
    models = train(
        data,
        seconds=args.seconds,
        config=TOY_TRANSFORMER if args.toy else TRANSFORMER,
        batch=4 if args.toy else 128,
        log=log,
        checkpoint=args.model / "transformer.pt",
        start_from=args.model if args.go_on else None,
        watch=watcher(vae, args.probe, args.device) if args.probe else None,
        compiled=args.device != "cpu",
    )
    # The quicker EMA is the other folder, for the evaluation to choose from.
    for rate, folder in zip(
        EMA_RATES, (args.model.with_name(args.model.name + "-quick"), args.model), strict=True
    ):
        write_model_folder(folder, transformer=models[f"ema {rate}"], vae=copy.deepcopy(vae))
    (args.model / "transformer.pt").unlink(missing_ok=True)  # or the next run would take itself for finished


if __name__ == "__main__":
    main()
