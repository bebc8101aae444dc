"""All of veo-mini in one process, within a budget of seconds, from nothing to a model folder with its figures.

    python -m training.train_all --out runs/veo-mini --seconds 1500
    python -m training.train_all --out runs/veo-mini --continue --decoder-seconds 420 --transformer-seconds 840

Clips are drawn once and serve the VAE, the probe and the transformer. What `--out` holds already (vae/,
probe/) is kept and not trained again; `--continue` goes on with its transformer too, and with its VAE's decoder for
`--decoder-seconds`. The transformer gets the seconds that the other stages leave, or `--transformer-seconds`.

A killed run goes on where it was when the same command is given again (the transformer's share must be given in
seconds, or the learning rate would jump). Every minute `latest/` in the folder is a model to render with.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import time
from pathlib import Path

import torch

from training import probe as probes
from training import train_probe, train_transformer, train_vae
from training.architectures import TOY_TRANSFORMER, TOY_VAE, TRANSFORMER, VAE
from training.clips import ClipPool
from training.evaluate import Sampler, evaluate, machine
from training.export import write_model_folder
from training.fit_sampling import fit
from training.latents import build
from training.run_log import RunLog


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1500, help="for everything, the evaluation included")
    parser.add_argument("--vae-seconds", type=float, default=330)
    parser.add_argument(
        "--decoder-seconds", type=float, default=0, help="for a decoder that is there already"
    )
    parser.add_argument("--transformer-seconds", type=float, help="default: what is left of --seconds")
    parser.add_argument("--probe-seconds", type=float, default=60)
    parser.add_argument("--reserve", type=float, default=170, help="seconds kept for fitting and evaluation")
    parser.add_argument("--pool", type=int, default=10_000, help="clips kept as pixels, for VAE and probe")
    parser.add_argument("--clips", type=int, default=18_000, help="clips in all, for the transformer")
    parser.add_argument("--continue", dest="go_on", action="store_true")
    parser.add_argument("--prompts", type=Path, help="a TSV for the evaluation")
    parser.add_argument("--clips-judged", type=int, default=512)
    parser.add_argument("--frechet", type=int, default=2048)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--toy", action="store_true", help="tiny networks, to try the program out")
    args = parser.parse_args()

    started = time.monotonic()
    log = RunLog(args.out / "log.jsonl")
    batch_size = 1 if args.toy else 64
    pool = ClipPool(args.pool, args.device, batch_size=batch_size)
    log("clips", count=len(pool), seconds_spent=pool.seconds, per_second=len(pool) / pool.seconds)

    if not (args.out / "vae").exists():
        vae = train_vae.train(
            pool,
            seconds=args.vae_seconds,
            config=TOY_VAE if args.toy else VAE,
            phases=train_vae.TOY_PHASES if args.toy else train_vae.PHASES,
            log=log,
        )
        train_vae.set_latent_statistics(vae, pool.frames[:1024])
        write_model_folder(args.out, vae=vae)
    elif args.decoder_seconds:
        vae = train_vae.load(args.out, args.device)
        train_vae.finish_decoder(
            vae,
            pool,
            seconds=args.decoder_seconds,
            phases=train_vae.TOY_DECODER_PHASES if args.toy else train_vae.DECODER_PHASES,
            log=log,
            checkpoint=args.out / "decoder.pt",
        )
        write_model_folder(args.out, vae=vae)
    # From the file, so that the latents are those of the weights that are shipped.
    vae = train_vae.load(args.out, args.device)
    fresh = ClipPool(max(1, args.pool // 10), args.device, split="held_out", batch_size=batch_size)
    values = train_vae.psnr(vae, fresh.frames[:256])
    log("vae", psnr_db=values.mean().item(), psnr_worst_db=values.min().item())
    for index, scene in enumerate(train_probe.VALUES["scene"]):
        rows = (fresh.labels[:256, 0] == index).nonzero().flatten()
        if len(rows):
            log("vae", scene=scene, psnr_db=values[rows].mean().item())

    if not (args.out / "probe").exists():
        rebuilt = train_probe.reconstructions(vae, pool.frames[: max(1, args.pool // 3)])
        probe = train_probe.train(
            pool,
            rebuilt,
            seconds=args.probe_seconds,
            batch=2 if args.toy else 48,
            width=8 if args.toy else 48,
            log=log,
        )
        probes.save(probe, args.out / "probe")
        del rebuilt
    probe = probes.load(args.out / "probe", args.device)
    train_probe.report(probe, fresh, fresh.frames, log, "probe on real clips")
    again = train_probe.reconstructions(vae, fresh.frames)
    train_probe.report(probe, fresh, again, log, "probe on reconstructions")
    del fresh, again

    data = build(
        vae,
        args.clips,
        pool=pool,
        device=args.device,
        batch_size=batch_size,
        captions_each=1 if args.toy else 6,
        workers=0 if args.toy else 12,
        log=log,
    )
    del pool
    gc.collect()
    if args.device != "cpu":
        torch.cuda.empty_cache()
    seconds = args.transformer_seconds or args.seconds - args.reserve - (time.monotonic() - started)
    write_model_folder(args.out / "latest", vae=copy.deepcopy(vae))
    models = train_transformer.train(
        data,
        seconds=max(seconds, 1.0),
        config=TOY_TRANSFORMER if args.toy else TRANSFORMER,
        batch=2 if args.toy else 128,
        log=log,
        checkpoint=args.out / "transformer.pt",
        start_from=args.out if args.go_on else None,
        snapshot=args.out / "latest",
        watch=None if args.toy else train_transformer.watcher(vae, args.out / "probe", args.device),
        compiled=args.device != "cpu",
    )
    del data
    quick = args.out.with_name(args.out.name + "-quick")
    for rate, folder in zip(train_transformer.EMA_RATES, (quick, args.out), strict=True):
        write_model_folder(folder, transformer=models[f"ema {rate}"], vae=copy.deepcopy(vae))
    fit(
        args.out,
        probe,
        args.device,
        rival=quick,
        clips=2 if args.toy else 256,
        steps=(2, 3) if args.toy else (24, 32, 36),
        seconds=1 if args.toy else 75,
        log=log,
    )
    figures = evaluate(
        Sampler(args.out, args.device),
        probe,
        clips=args.clips_judged,
        frechet_clips=args.frechet,
        prompts=args.prompts,
        contact=args.out / "contact.png",
    )
    figures = {**machine(torch.device(args.device)), **figures}
    (args.out / "veo_mini.json").write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    for checkpoint in ("decoder.pt", "transformer.pt"):
        # Or the next run would take itself for finished.
        (args.out / checkpoint).unlink(missing_ok=True)
    log("done", seconds_spent=time.monotonic() - started)


if __name__ == "__main__":
    main()
