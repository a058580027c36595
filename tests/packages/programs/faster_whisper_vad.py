"""Speech by the voice activity detector of faster-whisper."""

import numpy as np
from faster_whisper.vad import VadOptions, get_speech_timestamps, get_vad_model

rng = np.random.default_rng(0)
seconds = np.arange(16000 * 4) / 16000
tone = np.sin(2 * np.pi * 180 * seconds * (1 + 0.1 * np.sin(3 * seconds)))
wave = 0.3 * tone * (np.sin(2 * np.pi * 1.5 * seconds) > 0)
wave = (wave + 0.01 * rng.standard_normal(wave.size)).astype(np.float32)
padded = np.pad(wave, (0, -len(wave) % 512))


def answer():
    speech = np.asarray(get_vad_model()(padded)).astype(float).ravel().tolist()
    return [speech, get_speech_timestamps(wave, VadOptions(threshold=0.1))]
