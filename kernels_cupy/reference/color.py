"""RGB to 10-bit limited-range Y'CbCr in NumPy, float64: the executable specification of `cuda/color.cu`.

The steps, in this order:

1. clamp R'G'B' to [0, 1];
2. bt2020 only: linearise (BT.1886, gamma 2.4), multiply by `gamut_matrix()`, clamp, code again (gamma 1/2.4).
   The source is display-referred BT.709, which is what zimg's zscale assumes as well;
3. Y' = Kr R' + Kg G' + Kb B', Cb = (B' - Y') / (2 - 2 Kb), Cr = (R' - Y') / (2 - 2 Kr)  (Rec. ITU-R BT.709-6
   and BT.2020-2 non-constant luminance, item 3);
4. 4:2:0 only: chroma is filtered and subsampled. Left-sited (H.265 chroma_sample_loc_type 0): a chroma sample
   sits horizontally on the even luma column and vertically midway between two luma rows. The filter is the
   bilinear kernel scaled by two, as zscale's `filter=bilinear`: [1 2 1] / 4 over columns 2i-1, 2i, 2i+1 and
   [1 3 3 1] / 8 over rows 2j-1 .. 2j+2; an index outside the picture is clamped to its edge;
5. codes: Y = 876 Y' + 64, C = 896 C + 512, rounded to nearest, halves to even (dither "none"), or
   floor(code + threshold) with the 8x8 Bayer threshold of the sample's own plane position (dither "ordered").

Implementations in float32 may land on the other side of a half: they agree within one code, and exactly
wherever `yuv_values` is more than 0.001 away from a rounding boundary.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Color = Literal["bt709", "bt2020"]
Chroma = Literal["420", "444"]
Dither = Literal["none", "ordered"]

# (Kr, Kb): Rec. ITU-R BT.709-6 item 3.2, Rec. ITU-R BT.2020-2 table 4.
LUMA_WEIGHTS: dict[Color, tuple[float, float]] = {"bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}
# CIE 1931 xy of R, G, B; both systems share the white point D65.
PRIMARIES: dict[Color, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "bt709": ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)),
    "bt2020": ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
}
WHITE_D65 = (0.3127, 0.3290)
GAMMA = 2.4  # BT.1886
LUMA_SCALE, LUMA_OFFSET = 876.0, 64.0  # 10-bit codes: 64 .. 940
CHROMA_SCALE, CHROMA_OFFSET = 896.0, 512.0  # 10-bit codes: 64 .. 960
MAX_CODE = 1023
HORIZONTAL_TAPS = (0.25, 0.5, 0.25)  # columns 2i-1, 2i, 2i+1
VERTICAL_TAPS = (0.125, 0.375, 0.375, 0.125)  # rows 2j-1, 2j, 2j+1, 2j+2


def rgb_to_xyz(color: Color) -> NDArray[np.float64]:
    """(3, 3): linear RGB of the system to CIE XYZ with Y(white) = 1 (SMPTE RP 177)."""
    columns = np.array([[x / y, 1.0, (1 - x - y) / y] for x, y in PRIMARIES[color]]).T
    x, y = WHITE_D65
    white = np.array([x / y, 1.0, (1 - x - y) / y])
    scale = np.linalg.solve(columns, white)
    return (columns * scale).astype(np.float64)


def gamut_matrix() -> NDArray[np.float64]:
    """(3, 3): linear BT.709 RGB to linear BT.2020 RGB; every entry is positive, every row sums to 1."""
    return np.linalg.solve(rgb_to_xyz("bt2020"), rgb_to_xyz("bt709")).astype(np.float64)


def bayer_thresholds() -> NDArray[np.float64]:
    """(8, 8): thresholds in (0, 1), mean one half; sample (row, column) uses [row % 8, column % 8]."""
    matrix = np.zeros((1, 1))
    for _ in range(3):
        matrix = np.block([[4 * matrix, 4 * matrix + 2], [4 * matrix + 3, 4 * matrix + 1]])
    return (matrix + 0.5) / 64


def subsample(plane: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., height, width) -> (..., ceil(height/2), ceil(width/2)): the left-sited 4:2:0 filter of step 4."""
    height, width = plane.shape[-2:]
    columns = 2 * np.arange((width + 1) // 2)
    rows = 2 * np.arange((height + 1) // 2)
    narrow = np.zeros((*plane.shape[:-1], len(columns)))
    for offset, tap in zip((-1, 0, 1), HORIZONTAL_TAPS, strict=True):
        narrow += tap * plane[..., np.clip(columns + offset, 0, width - 1)]
    result = np.zeros((*plane.shape[:-2], len(rows), len(columns)))
    for offset, tap in zip((-1, 0, 1, 2), VERTICAL_TAPS, strict=True):
        result += tap * narrow[..., np.clip(rows + offset, 0, height - 1), :]
    return result


def yuv_values(
    rgb: NDArray[Any], *, color: Color = "bt709", chroma: Chroma = "420"
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Steps 1 to 4 and the scaling of step 5: code values before rounding.

    rgb: (num_frames, 3, height, width), any float dtype, gamma-coded BT.709 RGB in [0, 1].
    Returns y (num_frames, height, width) and cb, cr (num_frames, ceil(height/2), ceil(width/2)), or full
    size for "444".
    """
    coded = np.clip(rgb.astype(np.float64), 0.0, 1.0)
    if color == "bt2020":
        wide = np.einsum("ij,njhw->nihw", gamut_matrix(), coded**GAMMA)
        coded = np.clip(wide, 0.0, 1.0) ** (1 / GAMMA)
    kr, kb = LUMA_WEIGHTS[color]
    red, green, blue = coded[:, 0], coded[:, 1], coded[:, 2]
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    cb = (blue - luma) / (2 - 2 * kb)
    cr = (red - luma) / (2 - 2 * kr)
    if chroma == "420":
        cb, cr = subsample(cb), subsample(cr)
    return (
        LUMA_SCALE * luma + LUMA_OFFSET,
        CHROMA_SCALE * cb + CHROMA_OFFSET,
        CHROMA_SCALE * cr + CHROMA_OFFSET,
    )


def to_codes(values: NDArray[np.float64], dither: Dither = "none") -> NDArray[np.uint16]:
    """(..., height, width) code values -> uint16 codes in 0 .. 1023 (step 5)."""
    if dither == "ordered":
        height, width = values.shape[-2:]
        thresholds = np.tile(bayer_thresholds(), (-(-height // 8), -(-width // 8)))[:height, :width]
        whole = np.floor(values + thresholds)
    else:
        whole = np.rint(values)
    return np.clip(whole, 0, MAX_CODE).astype(np.uint16)


def rgb_to_yuv(
    rgb: NDArray[Any], *, color: Color = "bt709", chroma: Chroma = "420", dither: Dither = "none"
) -> tuple[NDArray[np.uint16], NDArray[np.uint16], NDArray[np.uint16]]:
    """Gamma-coded BT.709 RGB to limited-range 10-bit Y'CbCr of the given system.

    rgb: (num_frames, 3, height, width), any float dtype, in [0, 1] (values outside are clamped; no NaN).
    Returns y (num_frames, height, width) and cb, cr (num_frames, ceil(height/2), ceil(width/2)), or full
    size for "444"; uint16, the code in the low 10 bits, the high 6 zero.
    """
    y, cb, cr = yuv_values(rgb, color=color, chroma=chroma)
    return to_codes(y, dither), to_codes(cb, dither), to_codes(cr, dither)
