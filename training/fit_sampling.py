"""Choose the guidance scale, the flow shift, the EMA and the number of steps that a trained model is shipped with.

    python -m training.fit_sampling --model runs/veo-mini --rival runs/veo-mini-quick

Tried on held-out captions (other ones than the evaluation's): the mean accuracy over attributes, less a
twentieth of the Fréchet ratio, so that guidance is no stronger than the prompt needs, and less a little for each
step, since a step costs everybody's CPU a second.
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


def rank(accuracies: dict[str, float], frechet_ratio: float, steps: int) -> float:
    """How good a setting is: mean accuracy over attributes, less a twentieth of the distance over its floor.

    Twelve more steps must bring 0.006.
    """
    return sum(accuracies.values()) / len(accuracies) - 0.05 * frechet_ratio - 0.0005 * steps


def fit(
    folder: Path,
    probe: probes.Probe,
    device: str,
    *,
    rival: Path | None = None,
    clips: int = 256,
    steps: tuple[int, ...] = (24, 32, 36),
    seconds: float = 60.0,
    log: RunLog,
) -> None:
    """Try settings, and write the best into `folder`; a better `rival` gives it its transformer.

    The folder's own guidance and shift come first; all but the last attempts take the first of `steps`. No further
    setting is tried after `seconds`.
    """
    started = time.monotonic()
    prompts = held_out_prompts(clips, seed=1)
    texts = [p.text for p in prompts]
    wanted = torch.tensor(
        [[VALUES[a].index(p.mentioned[a]) if a in p.mentioned else -1 for a in ATTRIBUTES] for p in prompts]
    )
    real = ClipPool(2 * clips, device, split="floor", first=100_000)
    features, _ = probes.judge(probe, real.frames)
    floor = frechet(features[:clips], features[clips:])
    tried: dict[tuple[Path, float, float, int], float] = {}
    samplers: dict[Path, Sampler] = {}

    def attempt(which: Path, guidance: float, flow_shift: float, count: int) -> None:
        key = (which, guidance, flow_shift, count)
        if tried and (time.monotonic() - started > seconds or key in tried):
            return
        if which not in samplers:
            samplers[which] = Sampler(which, device)
        frames = samplers[which](
            texts, range(clips), guidance_scale=guidance, flow_shift=flow_shift, num_inference_steps=count
        )
        table, made, _ = score(probe, frames, wanted)
        ratio = frechet(made, features[:clips]) / floor
        accuracies = {name: v["accuracy"] for name, v in table.items()}
        tried[key] = rank(accuracies, ratio, count)
        log(
            "sampling",
            folder=which.name,
            guidance=guidance,
            flow_shift=flow_shift,
            steps=count,
            frechet_ratio=ratio,
            **accuracies,
        )

    def best() -> tuple[Path, float, float, int]:
        return max(tried, key=lambda key: tried[key])

    own = json.loads((folder / "veo.json").read_text(encoding="utf-8"))
    for guidance in (own["guidance_scale"], 4.0, 2.5):
        attempt(folder, guidance, own["flow_shift"], steps[0])
    if rival is not None:
        attempt(rival, best()[1], best()[2], steps[0])
    for flow_shift in (3.0, 5.0):
        attempt(best()[0], best()[1], flow_shift, steps[0])
    for count in steps[1:]:
        attempt(*best()[:3], count)
    chosen, guidance, flow_shift, count = best()
    log("sampling", chosen=chosen.name, guidance=guidance, flow_shift=flow_shift, steps=count)
    if chosen != folder:
        shutil.rmtree(folder / "transformer")
        shutil.copytree(chosen / "transformer", folder / "transformer")
    settings = {"flow_shift": flow_shift, "guidance_scale": guidance, "num_inference_steps": count}
    changes = (("veo.json", settings), ("scheduler/scheduler_config.json", {"flow_shift": flow_shift}))
    for name, new in changes:
        path = folder / name
        values = json.loads(path.read_text(encoding="utf-8")) | new
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--rival", type=Path, help="another folder; the better transformer wins")
    parser.add_argument("--probe", type=Path, default=probes.FOLDER)
    parser.add_argument("--clips", type=int, default=256)
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[24, 32, 36], help="the first for most attempts"
    )
    parser.add_argument("--seconds", type=float, default=60, help="try no further setting after so long")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    fit(
        args.model,
        probes.load(args.probe, args.device),
        args.device,
        rival=args.rival,
        clips=args.clips,
        steps=tuple(args.steps),
        seconds=args.seconds,
        log=RunLog(args.model / "log.jsonl"),
    )


if __name__ == "__main__":
    main()
