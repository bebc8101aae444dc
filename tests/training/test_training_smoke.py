"""Every stage of training at toy size, on a CPU: the networks agree with diffusers, and each stage learns."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch

from training import probe as probes
from training import train_probe, train_transformer, train_vae, vae_sequence
from training.architectures import TOY_TRANSFORMER, TOY_VAE, TRANSFORMER, VAE
from training.attributes import ATTRIBUTES, VALUES
from training.clips import ClipPool, as_frames, as_input
from training.evaluate import (
    Sampler,
    contact_sheet,
    flicker,
    frechet,
    held_out,
    read_prompts,
    score,
    warped_error,
)
from training.export import write_model_folder
from training.fit_sampling import rank
from training.latents import build
from training.muon import orthogonalise
from training.sample import noise
from training.text_states import TextEncoder


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def toy_vae():
    torch.manual_seed(0)
    return train_vae.build(TOY_VAE).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def pool():
    return ClipPool(2, "cpu", batch_size=1)


@pytest.mark.parametrize("frames", [1, 5, 13])
def test_whole_clip_vae_equals_the_causal_cache(toy_vae, frames):
    clips = torch.rand(2, 3, frames, 32, 48) * 2 - 1
    with torch.no_grad():
        mean, log_variance = vae_sequence.encode(toy_vae, clips)
        reference = toy_vae.encode(clips).latent_dist
        decoded = vae_sequence.decode(toy_vae, mean).clamp(-1, 1)
        streamed = toy_vae.decode(mean).sample
    assert torch.allclose(mean, reference.mean, atol=1e-5)
    assert torch.allclose(log_variance, reference.logvar, atol=1e-5)
    assert decoded.shape == clips.shape
    assert torch.allclose(decoded, streamed, atol=2e-5)


def test_networks_fit_the_package():
    """All of the model in fp16 is at most 40 MiB."""
    from diffusers import WanTransformer3DModel

    with torch.device("meta"):
        networks = (train_vae.build(VAE), WanTransformer3DModel(**TRANSFORMER))
    assert sum(2 * p.numel() for n in networks for p in n.parameters()) < 39.5 * 2**20


def test_muon_makes_updates_orthogonal():
    gradients = torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(0))
    singular = torch.linalg.svdvals(orthogonalise(gradients).float())
    assert singular.min() > 0.5 and singular.max() < 1.4
    assert torch.linalg.svdvals(gradients).max() > 8  # so that it was not so before


def test_a_vae_and_a_probe_learn(pool):
    torch.manual_seed(0)
    before = train_vae.psnr(train_vae.build(TOY_VAE), pool.frames[:, :5]).mean()
    vae = train_vae.train(pool, seconds=5, config=TOY_VAE, phases=train_vae.TOY_PHASES, muon_lr=1e-2)
    assert train_vae.psnr(vae, pool.frames[:, :5]).mean() > before + 1.0
    train_vae.set_latent_statistics(vae, pool.frames[:, :5])
    mean, _ = vae_sequence.encode(vae, as_input(pool.frames[:, :5], torch.float32))
    std = torch.tensor(vae.config.latents_std)
    assert torch.allclose(mean.transpose(0, 1).flatten(1).std(dim=1, correction=0), std, rtol=1e-2, atol=1e-3)
    probe = train_probe.train(pool, None, seconds=4, batch=2, width=8)
    _, predictions = probes.judge(probe, pool.frames)
    assert predictions.shape == (2, len(ATTRIBUTES))


def test_a_decoder_goes_on_alone(pool, tmp_path):
    """Reconstruction improves, while the encoder and the latent statistics stay what they are; killed, it goes on."""
    torch.manual_seed(0)
    vae = train_vae.train(pool, seconds=3, config=TOY_VAE, phases=train_vae.TOY_PHASES, muon_lr=1e-2)
    train_vae.set_latent_statistics(vae, pool.frames[:, :5])
    frozen = {name: tensor.clone() for name, tensor in vae.state_dict().items() if "decoder" not in name}
    config, before = dict(vae.config), train_vae.psnr(vae, pool.frames[:, :5]).mean()
    lines: list[dict] = []
    options = {"phases": train_vae.TOY_DECODER_PHASES, "checkpoint": tmp_path / "decoder.pt", "muon_lr": 5e-3}
    train_vae.finish_decoder(vae, pool, seconds=8, log=lambda stage, **facts: lines.append(facts), **options)
    assert train_vae.psnr(vae, pool.frames[:, :5]).mean() > before
    assert dict(vae.config) == config
    for name, tensor in frozen.items():
        if not name.startswith("post_quant_conv"):
            assert torch.equal(vae.state_dict()[name], tensor), name
    again: list[dict] = []
    weights = [p.clone() for p in vae.parameters()]
    train_vae.finish_decoder(vae, pool, seconds=8, log=lambda stage, **facts: again.append(facts), **options)
    assert again[0]["resumed_at_step"] == lines[-1]["step"] == again[-1]["step"]  # it was finished
    assert all(torch.equal(p, w) for p, w in zip(vae.parameters(), weights, strict=True))


def test_a_folder_s_own_sampling_settings_are_kept(tmp_path):
    write_model_folder(tmp_path)
    path = tmp_path / "veo.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"guidance_scale": 7.5}))
    write_model_folder(tmp_path)
    assert json.loads(path.read_text())["guidance_scale"] == 7.5


def test_mirroring_exchanges_left_and_right():
    frames = torch.arange(2 * 1 * 3 * 2 * 4, dtype=torch.uint8).view(2, 1, 3, 2, 4)
    left, right = VALUES["camera"].index("pan left"), VALUES["camera"].index("pan right")
    labels = torch.tensor([[0, 0, 0, left, -1], [0, 0, 0, left, -1]])
    flipped, changed = train_probe.mirror_some(frames, labels, torch.tensor([True, False]))
    assert changed[:, 3].tolist() == [right, left]
    assert torch.equal(flipped[0], frames[0].flip(-1)) and torch.equal(flipped[1], frames[1])


def test_from_clips_to_a_folder_to_pictures(tmp_path: Path, toy_vae):
    """Latents and captions, a short training that lowers the loss, a folder that stock diffusers loads."""
    from diffusers import AutoencoderKLWan, WanTransformer3DModel

    data = build(toy_vae, 2, device="cpu", captions_each=2, batch_size=1, workers=0)
    assert data.latents.shape == (4, 16, 9, 18, 32) and data.caption_rows.shape == (4, 2)
    lines: list[dict] = []
    models = train_transformer.train(
        data,
        seconds=6,
        config=TOY_TRANSFORMER,
        batch=2,
        checkpoint=tmp_path / "state.pt",
        log=lambda stage, **facts: lines.append(facts),
        watch=lambda model: {"seen": 1.0},
        watch_every_s=2,
        save_every_s=2,
    )
    assert any("seen" in facts for facts in lines)
    losses = [facts["loss"] for facts in lines if "loss" in facts]
    assert losses[-1] < losses[0]
    again: list[dict] = []
    train_transformer.train(
        data,
        seconds=1,
        config=TOY_TRANSFORMER,
        checkpoint=tmp_path / "state.pt",
        log=lambda stage, **facts: again.append(facts),
    )
    assert again[0]["resumed_at_step"] > 0

    folder = tmp_path / "model"
    write_model_folder(folder, transformer=models["ema 0.998"], vae=copy.deepcopy(toy_vae))
    for cls, name in ((WanTransformer3DModel, "transformer"), (AutoencoderKLWan, "vae")):
        _, info = cls.from_pretrained(folder / name, output_loading_info=True)
        assert not any(info.values()), info
    settings = json.loads((folder / "veo.json").read_text())
    assert (settings["width"], settings["height"], settings["num_frames"]) == (256, 144, 33)

    sampler = Sampler(folder, "cpu")
    frames = sampler(["a lighthouse"], [3], num_inference_steps=2)
    assert frames.shape == (1, 33, 3, 144, 256) and frames.dtype == torch.uint8
    assert torch.equal(frames, sampler(["a lighthouse"], [3], num_inference_steps=2))
    table, features, _ = score(probes.Probe(8).eval(), frames, torch.tensor([[6, -1, -1, -1, 0]]))
    assert set(table) == {"scene", "colour"} and features.shape == (1, probes.FEATURES)
    contact_sheet(frames, ["a lighthouse"], tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").stat().st_size > 1000


def test_text_states_are_those_of_each_prompt_alone():
    encoder = TextEncoder()
    texts = ["", "lighthouse, night", "a slow push in on a lonely beacon while mist swallows the shore"]
    together = encoder.states(texts)
    assert together.shape == (3, 64, 384)
    for text, states in zip(texts, together, strict=True):
        assert torch.allclose(encoder.states([text])[0], states, atol=1e-5)
    assert (together[0].abs().sum(dim=-1) > 0).sum() == 2  # [CLS] [SEP]


def test_motion_measures_tell_noise_from_movement():
    """Flicker and the warped error grow with noise; a steady pan has a small warped error."""
    generator = torch.Generator().manual_seed(0)
    wide = torch.nn.functional.interpolate(torch.rand(1, 3, 18, 48, generator=generator), size=(144, 384))
    pan = torch.stack([wide[0, :, :, 4 * t : 4 * t + 256] for t in range(6)])[None]
    still = pan[:, :1].expand(-1, 6, -1, -1, -1)
    pan, still = (255 * pan).to(torch.uint8), (255 * still).to(torch.uint8)
    noisy = (still.float() + 25 * torch.randn(still.shape, generator=generator)).clamp(0, 255).to(torch.uint8)
    assert flicker(still) == 0 and flicker(noisy) > 10
    unmatched = (pan[:, 1:].float() - pan[:, :-1].float()).abs().mean()
    assert warped_error(pan) < 0.3 * unmatched
    assert warped_error(noisy) > 2 * warped_error(still)


def test_frechet_distance_of_known_gaussians():
    a = torch.randn(4000, 4, generator=torch.Generator().manual_seed(1))
    assert frechet(a, a) == pytest.approx(0.0, abs=1e-9)
    assert frechet(a, a + 2.0) == pytest.approx(16.0, abs=1e-6)  # |mean difference|^2 = 4 * 2^2
    assert frechet(a, 3 * a) == pytest.approx(16.0, rel=0.1)  # 4 * (3 - 1)^2 and a small shift of the mean


def test_prompts_files_and_held_out_prompts(tmp_path: Path):
    path = tmp_path / "prompts.tsv"
    path.write_text("prompt\tscene\ttime\tweather\tcamera\tcolour\na red ball\tbouncing ball\t\t\t\tred\n")
    texts, wanted = read_prompts(path)
    assert texts == ["a red ball"]
    assert wanted.tolist() == [[VALUES["scene"].index("bouncing ball"), -1, -1, -1, 0]]
    texts, wanted = held_out(36)
    assert len(set(texts)) == 36
    assert (wanted[:, 0] >= 0).all() and torch.bincount(wanted[:, 0]).tolist() == [3] * 12


def test_noise_is_a_function_of_the_seed_alone():
    assert torch.equal(noise([5, 7])[1:], noise([7]))


def test_pixels_survive_the_round_trip():
    frames = torch.randint(0, 256, (1, 2, 3, 8, 8), dtype=torch.uint8)
    assert torch.equal(as_frames(as_input(frames, torch.float32)), frames)


def test_settings_are_ranked_by_accuracy_less_distance():
    good, worse = {"a": 0.9, "b": 0.8}, {"a": 0.9, "b": 0.7}
    assert rank(good, 2.0, 24) > rank(worse, 2.0, 24) > rank(worse, 4.0, 24)
    assert rank(good, 2.0, 24) > rank(good, 2.0, 36) > rank(worse, 2.0, 24)
