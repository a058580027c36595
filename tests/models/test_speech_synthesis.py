"""Text to speech as VITS does it: durations are drawn at random, and so is what is spoken.

The network has the steps of the exported one in small: an encoder of the text's characters, the
mean and deviation of their frames, a duration of each (with RandomNormalLike), a monotonic path of
as many frames as the durations add up to, their latent values (RandomNormalLike again), and
transposed convolutions to samples. Kim and others, Conditional Variational Autoencoder with
Adversarial Learning for End-to-End Text-to-Speech, 2021.
"""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper, parser

CHARACTERS, STRIDE = 20, 4
TEXT = """<ir_version: 9, opset_import: ["": 17]>
speech (int64[1, T] text, float[3] scales) => (float[1, 1, S] samples, float[1, 1, T] w)
<float[20, 16] table, float[16, 16, 3] w1, float[32, 16, 1] w2, float[1, 16, 1] w3,
 float[16, 1, 8] w4>
{
    zero = Constant<value = int64[1] {0}>()
    one = Constant<value = int64[1] {1}>()
    two = Constant<value = int64[1] {2}>()
    noise_scale = Gather(scales, zero)
    length_scale = Gather(scales, one)
    noise_scale_w = Gather(scales, two)
    embedded = Gather(table, text)
    columns = Transpose<perm = [0, 2, 1]>(embedded)
    mixed = Conv<pads = [1, 1]>(columns, w1)
    x = Relu(mixed)
    statistics = Conv(x, w2)
    m_p, logs_p = Split<axis = 1>(statistics)
    logw = Conv(x, w3)
    drawn = RandomNormalLike SEED_W (logw)
    jitter = Mul(drawn, noise_scale_w)
    logw_drawn = Add(logw, jitter)
    seconds = Exp(logw_drawn)
    scaled = Mul(seconds, length_scale)
    w = Ceil(scaled)
    axis = Constant<value = int64 {2}>()
    ends = CumSum(w, axis)
    begins = Sub(ends, w)
    total = ReduceSum<keepdims = 0>(w)
    count = Cast<to = 7>(total)
    first = Constant<value = int64 {0}>()
    step = Constant<value = int64 {1}>()
    numbers = Range(first, count, step)
    frame = Cast<to = 1>(numbers)
    rows = Unsqueeze(frame, one)
    behind = GreaterOrEqual(rows, begins)
    before = Less(rows, ends)
    within = And(behind, before)
    path = Cast<to = 1>(within)
    means = Transpose<perm = [0, 2, 1]>(m_p)
    logs = Transpose<perm = [0, 2, 1]>(logs_p)
    m = MatMul(path, means)
    deviation_log = MatMul(path, logs)
    deviation = Exp(deviation_log)
    latent = RandomNormalLike SEED_Z (m)
    wide = Mul(latent, deviation)
    noise = Mul(wide, noise_scale)
    z_rows = Add(m, noise)
    z = Transpose<perm = [0, 2, 1]>(z_rows)
    waves = ConvTranspose<strides = [4], pads = [2, 2]>(z, w4)
    samples = Tanh(waves)
}
"""
SILENT = np.array([0, 1, 0], np.float32)  # no noise
USUAL = np.array([0.667, 1, 0.8], np.float32)


def speech(*, seeded: bool) -> ModelProto:
    text = TEXT
    for name, seed in (("SEED_W", "<seed = 3.0>"), ("SEED_Z", "<seed = 4.0>")):
        text = text.replace(name, seed if seeded else "")
    model = parser.parse_model(text)
    rng = np.random.default_rng(0)
    shapes = {"table": (20, 16), "w1": (16, 16, 3), "w2": (32, 16, 1), "w3": (1, 16, 1)}
    for name, shape in {**shapes, "w4": (16, 1, 8)}.items():
        weights = (rng.standard_normal(shape) * 0.3).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, name))
    return model


def characters(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, CHARACTERS, (1, count))


@pytest.mark.parametrize("count", [1, 7, 60])
def test_without_noise_the_samples_are_onnxruntimes(count: int) -> None:
    model, x = speech(seeded=False), {"text": characters(count), "scales": SILENT}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    want = session.run(["samples", "w"], x)
    found = irc.compile_model(model)(x)
    np.testing.assert_array_equal(found["w"], want[1])
    np.testing.assert_allclose(found["samples"], want[0], rtol=1e-4, atol=1e-5)
    assert found["samples"].shape == (1, 1, STRIDE * int(want[1].sum()))


def test_a_seed_gives_the_same_speech_on_any_number_of_threads() -> None:
    model, x = speech(seeded=True), {"text": characters(30), "scales": USUAL}
    first, *others = (irc.compile_model(model, num_threads=n)(x) for n in (1, 2, 3))
    for other in others:
        np.testing.assert_array_equal(other["samples"], first["samples"])


def test_without_a_seed_each_call_speaks_in_its_own_way() -> None:
    net, x = irc.compile_model(speech(seeded=False)), {"text": characters(30), "scales": USUAL}
    calls = [net(x) for _ in range(4)]
    for call in calls:
        samples = call["samples"]
        assert samples.shape == (1, 1, STRIDE * int(call["w"].sum()))
        assert np.isfinite(samples).all() and np.abs(samples).max() <= 1 and samples.std() > 0.01
    assert len({call["w"].tobytes() for call in calls}) == len(calls)
