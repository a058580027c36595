"""Scores of openwakeword's wake words, and of its voice detector, on a chirp with noise."""

import numpy as np
from openwakeword.model import Model

model = Model(vad_threshold=0.1)
seconds = np.arange(16000 * 3) / 16000
wave = 0.4 * np.sin(2 * np.pi * (200 + 150 * seconds) * seconds)
wave = wave + 0.02 * np.random.default_rng(0).standard_normal(wave.size)
samples = (wave * 32767).astype(np.int16)


def answer():
    scores = []
    for begin in range(0, samples.size - 1279, 1280):
        found = model.predict(samples[begin : begin + 1280])
        scores.append([float(found[name]) for name in sorted(found)])
    return [sorted(found), scores]
