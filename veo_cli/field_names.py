"""The names a prompt file may use: ours, those of other tools, and those that are not built yet.

Ours mirror veo_cli.job.Job (a test holds them equal); this table exists apart from it so that reading a
preset does not need pydantic.
"""

from __future__ import annotations

import difflib

GROUPS: dict[str, tuple[str, ...]] = {
    "sampler": ("width", "height", "num_frames", "fps", "scheduler"),
    "memory": ("offload", "tiled_decode", "checkpoint_every"),
    "upscale": ("fit",),
    "encode": (
        "codec", "encoder", "crf", "bitrate", "codec_preset", "tune", "lossless", "chroma", "color",
        "reuse_threshold", "frames",
    ),
}  # fmt: skip

TOP_LEVEL = (
    "model", "prompt", "negative_prompt", "width", "height", "num_frames", "fps", "num_inference_steps",
    "guidance_scale", "guidance_scale_2", "guidance_schedule", "noise_schedule", "flow_shift", "seed",
    "output", "loras",
)  # fmt: skip

# Words for other fields: resolution is width and height; duration becomes num_frames once the fps is known.
WORDS = ("resolution", "duration")

FIELDS = frozenset(TOP_LEVEL) | {f"{group}.{name}" for group, names in GROUPS.items() for name in names}

# Taken as written, whatever it looks like: `prompt: 2024` and `prompt: no` are texts.
TEXT_FIELDS = frozenset(
    {"model", "prompt", "negative_prompt", "output", "encode.bitrate", "encode.chroma", "preset"}
)

OTHER_TOOLS = {
    "sample_steps": "num_inference_steps",
    "steps": "num_inference_steps",
    "num_steps": "num_inference_steps",
    "infer_steps": "num_inference_steps",
    "inference_steps": "num_inference_steps",
    "num_sampling_steps": "num_inference_steps",
    "sampling_steps": "num_inference_steps",
    "cfg": "guidance_scale",
    "cfg_scale": "guidance_scale",
    "guidance": "guidance_scale",
    "guide_scale": "guidance_scale",
    "sample_guide_scale": "guidance_scale",
    "size": "resolution",
    "frame_num": "num_frames",
    "frames": "num_frames",
    "num_frame": "num_frames",
    "video_length": "num_frames",
    "target_video_length": "num_frames",
    "duration_sec": "duration",
    "duration_s": "duration",
    "duration_seconds": "duration",
    "seconds": "duration",
    "frame_rate": "fps",
    "framerate": "fps",
    "frames_per_second": "fps",
    "base_seed": "seed",
    "random_seed": "seed",
    "noise_seed": "seed",
    "sample_shift": "flow_shift",
    "shift": "flow_shift",
    "neg_prompt": "negative_prompt",
    "n_prompt": "negative_prompt",
    "sample_neg_prompt": "negative_prompt",
    "text_prompt": "prompt",
    "caption": "prompt",
    "ckpt_dir": "model",
    "model_id": "model",
    "model_path": "model",
    "pretrained_model_name_or_path": "model",
    "save_file": "output",
    "output_path": "output",
    "sample_solver": "sampler.scheduler",
    "scheduler": "sampler.scheduler",
    "lora": "loras",
}

# What the design has but veo cannot do yet: said as such, not as a spelling mistake.
NOT_BUILT = {
    "interpolate": "frame interpolation is not built yet: num_frames and fps are made by the model itself",
    "upscale.model": "super-resolution networks are not built yet: frames are fitted by Lanczos",
    "upscale.network": "super-resolution networks are not built yet: frames are fitted by Lanczos",
    "memory.max_vram": "a memory limit belongs to the machine, not to the clip: use the option --max-vram",
    "memory.quantize": "quantised weights are not built yet",
    "image": "image-to-video is not built yet",
    "cache": "step caching is not built yet",
}

# Names that people try, and what to write for them.
INSTEAD = {
    "aspect_ratio": "give width and height, or resolution: 720x1280",
    "num_videos": "one clip a job; for several: matrix: {seed: [1, 2, 3]}",
    "num_videos_per_prompt": "one clip a job; for several: matrix: {seed: [1, 2, 3]}",
    "batch_size": "one clip a job; for several: matrix: {seed: [1, 2, 3]}",
    "interval": "write guidance_schedule: {interval: [0.2, 0.8]}",
    "quality": "write encode: {crf: 18}; lower is better",
    "matrices": "write matrix:",
    "encode.preset": "write encode: {codec_preset: fast}",
    "preset": "a preset is named at the top of a prompt file, or by --preset",
}


def nearest(name: str, group: str = "", extra: tuple[str, ...] = ()) -> str:
    """The field most like `name` in that group ("" for the top level), dotted; "" when nothing is near.

    `extra`: further names allowed at this place, such as `prompts`.
    """
    if group:
        match = difflib.get_close_matches(name.lower(), GROUPS[group], 1, 0.6)
        return f"{group}.{match[0]}" if match else _elsewhere(name)
    candidates = [*TOP_LEVEL, *GROUPS, *WORDS, *extra]
    wanted = name.lower().replace("-", "_")
    if wanted in _FLAT_TO_GROUP and wanted not in candidates:
        return _FLAT_TO_GROUP[wanted]
    match = difflib.get_close_matches(wanted, candidates, 1, 0.6)
    if match:
        return match[0]
    other = difflib.get_close_matches(wanted, OTHER_TOOLS, 1, 0.8)
    return OTHER_TOOLS[other[0]] if other else _elsewhere(wanted)


_FLAT_TO_GROUP = {name: f"{group}.{name}" for group, names in GROUPS.items() for name in names}


def _elsewhere(name: str) -> str:
    match = difflib.get_close_matches(name, [*TOP_LEVEL, *_FLAT_TO_GROUP], 1, 0.75)
    if not match:
        return ""
    return match[0] if match[0] in TOP_LEVEL else _FLAT_TO_GROUP[match[0]]
