"""Choose the guidance scale, the flow shift and the EMA that a trained model is shipped with.

    python -m training.fit_sampling --model runs/veo-mini --rival runs/veo-mini-quick

Tried on held-out captions (other ones than the evaluation's): the mean accuracy over attributes, less a
twentieth of the Fréchet ratio, so that guidance is no stronger than the prompt needs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import torch

from training import probe as probes
from training.attributes import ATTRIBUTES, VALUES
from training.captions import held_out_prompts
from training.clips import ClipPool
from training.evaluate import Sampler, frechet, score
from training.run_log import RunLog


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument(
        "--rival", type=Path, help="another folder of the same model; the better transformer wins"
    )
    parser.add_argument("--probe", type=Path, default=probes.FOLDER)
    parser.add_argument("--clips", type=int, default=256)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=60, help="try no further setting after so long")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    log = RunLog(args.model / "log.jsonl")
    started = time.monotonic()
    probe = probes.load(args.probe, args.device)
    prompts = held_out_prompts(args.clips, seed=1)
    texts = [p.text for p in prompts]
    wanted = torch.tensor(
        [[VALUES[a].index(p.mentioned[a]) if a in p.mentioned else -1 for a in ATTRIBUTES] for p in prompts]
    )
    real = ClipPool(2 * args.clips, args.device, split="floor", first=100_000)
    features, _ = probes.judge(probe, real.frames)
    floor = frechet(features[: args.clips], features[args.clips :])
    tried: dict[tuple[Path, float, float], float] = {}
    samplers: dict[Path, Sampler] = {}

    def attempt(folder: Path, guidance: float, flow_shift: float) -> None:
        if time.monotonic() - started > args.seconds or (folder, guidance, flow_shift) in tried:
            return
        if folder not in samplers:
            samplers[folder] = Sampler(folder, args.device)
        frames = samplers[folder](
            texts,
            range(args.clips),
            guidance_scale=guidance,
            flow_shift=flow_shift,
            num_inference_steps=args.steps,
        )
        table, made, _ = score(probe, frames, wanted)
        mean = sum(v["accuracy"] for v in table.values()) / len(table)
        ratio = frechet(made, features[: args.clips]) / floor
        tried[folder, guidance, flow_shift] = mean - 0.05 * ratio
        log(
            "sampling",
            folder=folder.name,
            guidance=guidance,
            flow_shift=flow_shift,
            frechet_ratio=ratio,
            **{k: v["accuracy"] for k, v in table.items()},
        )

    def best() -> tuple[Path, float, float]:
        return max(tried, key=lambda key: tried[key])

    for guidance in (4.0, 2.5, 6.0):
        attempt(args.model, guidance, 3.0)
    for flow_shift in (1.5, 5.0):
        attempt(args.model, best()[1], flow_shift)
    if args.rival is not None:
        attempt(args.rival, best()[1], best()[2])
    folder, guidance, flow_shift = best()
    log("sampling", chosen=folder.name, guidance=guidance, flow_shift=flow_shift)
    if folder != args.model:
        shutil.rmtree(args.model / "transformer")
        shutil.copytree(folder / "transformer", args.model / "transformer")
    for path, key in (
        (args.model / "veo.json", None),
        (args.model / "scheduler" / "scheduler_config.json", 1),
    ):
        values = json.loads(path.read_text(encoding="utf-8"))
        values["flow_shift"] = flow_shift
        if key is None:
            values |= {"guidance_scale": guidance, "num_inference_steps": args.steps}
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
