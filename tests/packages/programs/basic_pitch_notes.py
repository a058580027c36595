"""Notes, onsets and contours of a chord by the ONNX model of basic-pitch."""

import importlib.util
import pathlib

import numpy as np
import onnxruntime

folder = pathlib.Path(importlib.util.find_spec("basic_pitch").submodule_search_locations[0])
(path,) = sorted(folder.rglob("*.onnx"))
session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
(port,) = session.get_inputs()
seconds = np.arange(43844) / 22050
wave = sum(np.sin(2 * np.pi * f * seconds) for f in (220.0, 277.2, 329.6)) / 3


def answer():
    found = session.run(None, {port.name: wave.astype(np.float32)[None, :, None]})
    return [f[0, ::7, ::5].astype(float).ravel().tolist() for f in found]
