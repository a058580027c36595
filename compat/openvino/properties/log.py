"""openvino.properties.log: how much is logged."""

from __future__ import annotations

from enum import Enum

from .property_names import Property


class Level(Enum):
    """The least severe message that is logged."""

    NO = -1
    ERR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3
    TRACE = 4


level = Property("LOG_LEVEL")
