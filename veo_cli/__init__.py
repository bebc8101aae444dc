"""veo: text to an HEVC Main10 clip, from a shell."""

__version__ = "0.1.0"
PIXEL_VERSION = 1  # raise it when the same job would give other pixels; it is part of every job_id
