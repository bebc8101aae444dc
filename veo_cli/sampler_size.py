"""What a model generates for a delivered size."""

from __future__ import annotations

import math

from veo_cli.models.model_info import ModelInfo

# A model without a list of sizes is asked for the delivered size itself up to this many times the area of
# its own; beyond that, samplers repeat themselves and memory runs out, so it makes its own area at the
# delivered aspect.
MAX_AREA_RATIO = 2.25
_ALIKE = 0.1  # aspect ratios within e^0.1 (10 %) count as the same shape
_NEARLY_COVERS = 0.9  # 832 columns serve for 854


def sampler_size(model: ModelInfo, width: int, height: int) -> tuple[int, int]:
    """(width, height) in pixels that the model generates for a clip of width x height.

    From a list of sizes: of those nearest in shape, the smallest that (nearly) covers the clip, else the
    largest.
    """
    if model.sizes:
        return _nearest_listed(model.sizes, width, height)
    multiple = max(1, model.size_multiple)
    native_area = float(model.defaults.get("width", 0)) * float(model.defaults.get("height", 0))
    scale = 1.0
    if native_area and width * height > MAX_AREA_RATIO * native_area:
        scale = math.sqrt(native_area / (width * height))
    wide, high = (
        max(multiple, math.ceil(side * scale / multiple - 1e-9) * multiple) for side in (width, height)
    )
    return wide, high


def _nearest_listed(sizes: tuple[tuple[int, int], ...], width: int, height: int) -> tuple[int, int]:
    def unlike(size: tuple[int, int]) -> float:
        return abs(math.log((size[0] / size[1]) / (width / height)))

    best = min(unlike(size) for size in sizes)
    alike = [size for size in sizes if unlike(size) <= best + _ALIKE]
    covering = [
        size for size in alike if size[0] >= _NEARLY_COVERS * width and size[1] >= _NEARLY_COVERS * height
    ]
    if covering:
        return min(covering, key=lambda size: (size[0] * size[1], unlike(size)))
    return max(alike, key=lambda size: (size[0] * size[1], -unlike(size)))
