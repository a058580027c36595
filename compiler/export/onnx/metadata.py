"""Writes `Graph.rt_info` (compiler/metadata.py) as metadata_props, producer and doc strings."""

from __future__ import annotations

from onnx import ModelProto

from ....ir.graph import Graph
from ...metadata import CUSTOM, DESCRIPTION, PATH_PREFIX, list_paths, read_section

PRODUCER = "irc"


def write_metadata(proto: ModelProto, graph: Graph) -> None:
    """What the frontend read goes back to its fields. Other sections of rt_info, as those of an
    IR, become metadata_props whose keys are paths: "rt_info/conversion_parameters/framework"."""
    described = read_section(graph.rt_info, DESCRIPTION)
    proto.producer_name = described.get("producer_name", PRODUCER)
    proto.producer_version = described.get("producer_version", "")
    proto.domain = described.get("domain", "")
    proto.doc_string = described.get("description", "")
    proto.graph.doc_string = described.get("graph_description", "")
    version = described.get("version", "")
    if version.lstrip("-").isdecimal() and -(2**63) <= int(version) < 2**63:
        proto.model_version = int(version)
    for key, value in sorted(read_section(graph.rt_info, CUSTOM).items()):
        proto.metadata_props.add(key=key, value=value)
    for path, text in list_paths(graph.rt_info):
        proto.metadata_props.add(key=PATH_PREFIX + path, value=text)
