"""Pitch of a noisy tone by swift-f0: the empty bins of an exact tone are rounding errors."""

import numpy as np
from swift_f0 import SwiftF0

seconds = np.arange(16000 * 2) / 16000
wave = 0.5 * np.sin(2 * np.pi * 220 * seconds + 3 * np.sin(4 * seconds))
wave = wave + 0.05 * np.random.default_rng(0).standard_normal(wave.size)
detector = SwiftF0()


def answer():
    found = detector.detect(wave.astype(np.float32), 16000)
    numbers = np.stack([found.pitch_hz / 1000, found.confidence])
    return [numbers.astype(float).tolist(), np.asarray(found.timestamps).tolist()]
