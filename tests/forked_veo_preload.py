"""Imported once by the server that veo processes are forked from."""

import torch
import transformers  # noqa: F401
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel  # noqa: F401

import veo_cli.batch
import veo_cli.cli
import veo_cli.job_runner
import veo_cli.models.wan  # noqa: F401

torch.set_num_threads(1)
