"""openvino.properties.device: facts about a device."""

from __future__ import annotations

from enum import Enum

from .property_names import Property


class Type(Enum):
    """Whether a device is part of the processor."""

    INTEGRATED = 0
    DISCRETE = 1


architecture = Property("DEVICE_ARCHITECTURE")
capabilities = Property("OPTIMIZATION_CAPABILITIES")
full_name = Property("FULL_DEVICE_NAME")
gops = Property("DEVICE_GOPS")
id = Property("DEVICE_ID")
luid = Property("DEVICE_LUID")
priorities = Property("MULTI_DEVICE_PRIORITIES")
properties = Property("DEVICE_PROPERTIES")
thermal = Property("DEVICE_THERMAL")
type = Property("DEVICE_TYPE")
uuid = Property("DEVICE_UUID")
