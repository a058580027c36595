"""openvino.properties.intel_cpu: properties of CPUs."""

from __future__ import annotations

from enum import Enum

from .property_names import Property


class TbbPartitioner(Enum):
    """How work is shared among threads."""

    STATIC = 1
    AUTO = 2


denormals_optimization = Property("CPU_DENORMALS_OPTIMIZATION")
sparse_weights_decompression_rate = Property("CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE")
tbb_partitioner = Property("TBB_PARTITIONER")
