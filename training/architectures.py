"""The sizes of veo-mini: what the trained folder's configs say.

Both networks are diffusers' own classes, so that stock `from_pretrained` loads them. In all <= 40 MiB of fp16.
"""

from __future__ import annotations

from typing import Any

WIDTH, HEIGHT, NUM_FRAMES, FPS = 256, 144, 33, 12
LATENT_CHANNELS = 16
LATENT_SHAPE = (LATENT_CHANNELS, 1 + (NUM_FRAMES - 1) // 4, HEIGHT // 8, WIDTH // 8)
TEXT_TOKENS, TEXT_DIM = 64, 384

# patch_size 2 folds 2x2 pixels into channels, so the widest feature maps are a quarter as large as the
# picture: on a CPU that buys a decoder twice as wide for the same seconds. Compression stays 4x8x8.
VAE: dict[str, Any] = {
    "base_dim": 32,
    "decoder_base_dim": 48,
    "z_dim": LATENT_CHANNELS,
    "dim_mult": [1, 2, 2],
    "num_res_blocks": 1,
    "attn_scales": [],
    "temperal_downsample": [True, True],
    "in_channels": 12,
    "out_channels": 12,
    "patch_size": 2,
    "scale_factor_temporal": 4,
    "scale_factor_spatial": 8,
    "latents_mean": [0.0] * LATENT_CHANNELS,
    "latents_std": [1.0] * LATENT_CHANNELS,
}

TRANSFORMER: dict[str, Any] = {
    "patch_size": [1, 2, 2],
    "num_attention_heads": 6,
    "attention_head_dim": 64,
    "in_channels": LATENT_CHANNELS,
    "out_channels": LATENT_CHANNELS,
    "text_dim": TEXT_DIM,
    "freq_dim": 256,
    "ffn_dim": 1152,
    "num_layers": 7,
    "cross_attn_norm": True,
    "qk_norm": "rms_norm_across_heads",
    "eps": 1e-6,
    "rope_max_seq_len": 1024,
}

# The same shapes at the smallest useful size: every stage runs in seconds on a CPU.
TOY_VAE: dict[str, Any] = {**VAE, "base_dim": 8, "decoder_base_dim": 8, "dim_mult": [1, 1, 2]}
TOY_TRANSFORMER: dict[str, Any] = {
    **TRANSFORMER,
    "num_attention_heads": 2,
    "attention_head_dim": 16,
    "ffn_dim": 64,
    "num_layers": 2,
}
