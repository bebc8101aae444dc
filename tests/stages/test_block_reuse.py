"""encode.reuse_threshold: blocks that hardly change stay as they were."""

from __future__ import annotations

import numpy as np

from veo_cli.stages.block_reuse import BlockReuse
from veo_cli.values import YuvFrame


def frame(index: int, luma: np.ndarray) -> YuvFrame:
    chroma = np.full((65, 100), 512, np.uint16)
    return YuvFrame(luma, chroma, chroma.copy(), index)


def test_small_changes_are_kept_back_until_they_add_up():
    reuse = BlockReuse(0.005)
    luma = np.full((130, 200), 400, np.uint16)
    first = reuse(frame(0, luma))
    assert np.array_equal(first.y, luma)
    kept = []
    for step in range(1, 5):  # one code of 400 is 0.25 % of it, two are 0.5 %, three are more
        changed = luma.copy()
        changed[:64, :64] += step
        changed[70, 70] += 1
        kept.append(reuse(frame(step, changed)).y[0, 0])
        assert kept[-1] in (400, 403)
    assert kept == [400, 400, 403, 403]


def test_blocks_change_by_themselves_and_edges_too():
    reuse = BlockReuse(0.005)
    old = np.full((130, 200), 400, np.uint16)
    new = np.random.default_rng(0).integers(300, 500, (130, 200)).astype(np.uint16)
    new[:64, :64] = 401  # hardly changed
    reuse(frame(0, old))
    out = reuse(frame(1, new))
    assert (out.y[:64, :64] == 400).all()
    assert np.array_equal(out.y[64:], new[64:])
    assert np.array_equal(out.y[:, 64:], new[:, 64:])
    assert out.index == 1


def test_without_a_threshold_frames_are_handed_on():
    reuse = BlockReuse(0.0)
    frames = [frame(index, np.full((8, 8), 400 + index, np.uint16)) for index in range(3)]
    assert [reuse(given) is given for given in frames] == [True, True, True]
