"""XML text to records: the elements of IR versions 10 and 11, strictly; nothing of their meaning.

The parser expands no entity, opens no file and no network, and refuses a DOCTYPE. Layers are
turned into records as they end and their elements are dropped at once, so that the tree of a
large model is never in memory as a whole.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import lxml.etree  # pyright: ignore[reportMissingTypeStubs, reportMissingModuleSource]

from ....ir.errors import ModelFormatError, UnsupportedOperationError
from ....ir.op import MAX_BODY_DEPTH
from . import text as words
from .parse_errors import not_xml
from .schema_records import NO_INFO, Edge, Info, MapEntry, Net, RtTree, XmlLayer, XmlPort, tag_text
from .text import BadText, shorten_text

# lxml has no types.
etree: Any = lxml.etree  # pyright: ignore
_T = TypeVar("_T")
_BODY = re.compile(r"(?:then_|else_)?body[0-9]*", re.ASCII)
_MAP = re.compile(r"(?:then_|else_)?port_map[0-9]*", re.ASCII)
# Elements of the schema that a layer does not hold; what is unknown altogether is skipped.
_MISPLACED = frozenset(["net", "layers", "layer", "edges", "edge", "port", "dim", "attribute"])
_SPACES = " \t\r\n"
VERSIONS = (10, 11)


def parse_xml(data: bytes, file: str) -> Net:
    """The records of an IR. Raises ModelFormatError with file, line, element and attribute."""
    net = Net(file, "", 0, 0)
    schema = _Schema(file)
    context = etree.iterparse(
        io.BytesIO(data),
        events=("end",),
        tag=("layer", "edge"),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_blank_text=True,
        # They say nothing, wherever they are: what is around one is one text.
        remove_comments=True,
        remove_pis=True,
    )
    try:
        for _, element in context:
            parent = element.getparent()
            if parent is None or parent.tag != f"{element.tag}s":
                continue
            top = parent.getparent()
            if top is None or top.getparent() is not None:
                continue  # part of a body: read with the layer that holds the body
            if not net.layers:
                _refuse_doctype(element, file)
            schema.drop_before(element)
            if element.tag == "layer":
                net.layers.append(schema.layer(element, 0))
            else:
                net.edges.append(schema.edge(element))
            element.clear(keep_tail=True)
    except etree.XMLSyntaxError as error:
        raise not_xml(error, context.error_log, data, file) from error
    root = context.root
    if root is None:
        raise ModelFormatError(
            "the file holds no XML", where=file, got=f"{len(data)} bytes", expected="<net ...>"
        )
    _refuse_doctype(root, file)
    schema.net(root, net)
    return net


def _refuse_doctype(element: Any, file: str) -> None:
    document = element.getroottree().docinfo
    if document.internalDTD is not None or document.doctype:
        raise ModelFormatError(
            "a DOCTYPE is not allowed in a model file",
            where=file,
            got=shorten_text(document.doctype or "<!DOCTYPE"),
            expected="<net ...> without document type and entities",
        )


class _Schema:
    """The readers of the elements of one file."""

    def __init__(self, file: str) -> None:
        self.file = file

    # Small readers ----------------------------------------------------------------------------

    def fail(
        self, element: Any, what: str, got: object = None, expected: object = None
    ) -> ModelFormatError:
        where = f"{self.file}: <{element.tag}> (line {element.sourceline})"
        return ModelFormatError(what, where=where, got=got, expected=expected)

    def required_attribute(self, element: Any, name: str) -> str:
        value = element.get(name)
        if value is None:
            raise self.fail(
                element,
                f"attribute {name!r} is missing",
                tag_text(element.tag, element.attrib),
                f'{name}="..." in it',
            )
        return value

    def number(self, element: Any, name: str, parse: Callable[[str], _T]) -> _T:
        text = self.required_attribute(element, name)
        try:
            return parse(text)
        except BadText as bad:
            raise self.fail(
                element, f"attribute {name!r} has a bad value", shorten_text(text), bad.expected
            ) from None

    def children(self, element: Any) -> list[Any]:
        """Child elements; comments and processing instructions are skipped, text is refused."""
        found: list[Any] = []
        self._no_text(element, element.text)
        for child in element:
            tail = child.tail
            if tail is not None:
                self._no_text(element, tail)
            tag = child.tag
            if isinstance(tag, str):
                found.append(child)
            elif tag is etree.Entity:
                raise self.fail(
                    element,
                    "an entity reference is not allowed",
                    shorten_text(child.text),
                    "the text",
                )
        return found

    def _no_text(self, element: Any, text: str | None) -> None:
        if text is not None and text.strip(_SPACES):
            raise self.fail(
                element,
                "text where only elements are allowed",
                shorten_text(text.strip(_SPACES)),
                f"no text between the elements of <{element.tag}>",
            )

    def drop_before(self, element: Any) -> None:
        """Remove the elements before one that were read: the tree stays small."""
        parent = element.getparent()
        self._no_text(parent, parent.text)
        parent.text = None
        while (before := element.getprevious()) is not None:
            self._no_text(parent, before.tail)
            if isinstance(before.tag, str) and before.tag != element.tag:
                raise self.unknown_element(before, parent)
            parent.remove(before)

    def unknown_element(self, child: Any, parent: Any) -> ModelFormatError:
        """The error for an element that does not belong into a list of layers or edges."""
        expected = f"<{parent.tag.removesuffix('s')}>"
        return self.fail(child, f"an unknown element in <{parent.tag}>", f"<{child.tag}>", expected)

    def sections(self, element: Any) -> dict[str, Any]:
        """Child elements by tag, each of which may occur once."""
        found: dict[str, Any] = {}
        for child in self.children(element):
            if child.tag in found:
                raise self.fail(
                    child,
                    f"<{element.tag}> has more than one <{child.tag}>",
                    f"a second <{child.tag}>",
                    f"one <{child.tag}>",
                )
            found[child.tag] = child
        return found

    # The net ----------------------------------------------------------------------------------

    def net(self, root: Any, net: Net) -> None:
        """Name, version, edges and rt_info; the layers are there already."""
        if not isinstance(root.tag, str) or root.tag.lower() != "net":
            raise self.fail(root, "not an OpenVINO IR", f"the root <{root.tag}>", "the root <net>")
        version = root.get("version")
        if version is None or version not in [str(v) for v in VERSIONS]:
            got = "no version" if version is None else shorten_text(version)
            raise self.fail(root, "this version of the IR is not supported", got, "10 or 11")
        net.name, net.version, net.line = root.get("name", ""), int(version), root.sourceline
        sections = self.sections(root)
        if "layers" not in sections:
            raise self._no_layers(root, sections)
        for part in [sections[tag] for tag in ("layers", "edges") if tag in sections]:
            for child in self.children(part):
                if f"{child.tag}s" != part.tag:
                    raise self.unknown_element(child, part)
        if "rt_info" in sections:
            net.rt_info = self.tree(sections["rt_info"])
        self._legacy(sections, net)

    def _no_layers(self, element: Any, sections: dict[str, Any]) -> ModelFormatError:
        found = ", ".join(f"<{tag}>" for tag in sections) or "nothing"
        return self.fail(
            element, f"<{element.tag}> has no <layers>", f"{found[:200]} in it", "<layers>"
        )

    def _legacy(self, sections: dict[str, Any], net: Net) -> None:
        """What version 10 has instead of rt_info."""
        if "pre-process" in sections and len(sections["pre-process"]):
            raise UnsupportedOperationError(
                "mean values stored in the model (<pre-process>) are not supported",
                where=f"{self.file}: line {sections['pre-process'].sourceline}",
                fix="convert the model with a current OpenVINO, which writes them as operations",
            )
        if "meta_data" in sections and not net.rt_info:
            parameters = self.tree(sections["meta_data"]).get("cli_parameters")
            if isinstance(parameters, dict):
                net.rt_info = {"conversion_parameters": parameters}

    def body(self, element: Any, depth: int) -> Net:
        """The net inside a layer: nameless, with ids of its own."""
        if depth > MAX_BODY_DEPTH:
            raise self.fail(
                element,
                "bodies are nested too deeply",
                f"{depth} levels",
                f"at most {MAX_BODY_DEPTH}",
            )
        net = Net(self.file, element.tag, VERSIONS[-1], element.sourceline)
        sections = self.sections(element)
        if "layers" not in sections:
            raise self._no_layers(element, sections)
        for child in self.children(sections["layers"]):
            if child.tag != "layer":
                raise self.unknown_element(child, sections["layers"])
            net.layers.append(self.layer(child, depth))
        for child in self.children(sections["edges"]) if "edges" in sections else ():
            if child.tag != "edge":
                raise self.unknown_element(child, sections["edges"])
            net.edges.append(self.edge(child))
        if "rt_info" in sections:
            net.rt_info = self.tree(sections["rt_info"])
        return net

    def edge(self, element: Any) -> Edge:
        """One `<edge>`."""
        return Edge(
            self.number(element, "from-layer", words.parse_unsigned),
            self.number(element, "from-port", words.parse_unsigned),
            self.number(element, "to-layer", words.parse_unsigned),
            self.number(element, "to-port", words.parse_unsigned),
            element.sourceline,
        )

    def tree(self, element: Any) -> RtTree:
        """A tree of rt_info: `<key value="..."/>` is a leaf, other elements hold more of them."""
        out: RtTree = {}
        for child in element:
            if not isinstance(child.tag, str):
                continue
            name = child.get("name") if child.tag == "info" else None
            key = child.tag if name is None else name
            value = child.get("value")
            out[str(key)] = self.tree(child) if value is None else value
        return out

    # Layers -----------------------------------------------------------------------------------

    def layer(self, element: Any, depth: int) -> XmlLayer:
        """One `<layer>` with the bodies in it."""
        names = element.get("output_names")
        layer = XmlLayer(
            self.file,
            element.sourceline,
            self.number(element, "id", words.parse_unsigned),
            self.required_attribute(element, "name"),
            sys.intern(self.required_attribute(element, "type")),
            sys.intern(self.required_attribute(element, "version")),
            None if names is None else words.name_set(names),
        )
        for tag, child in self.sections(element).items():
            if tag == "data":
                layer.data = dict(child.attrib)
            elif tag == "rt_info":
                layer.rt_info = self.attributes(child)
            elif tag == "input":
                layer.inputs = self._ports(child, layer)
            elif tag == "output":
                layer.outputs = self._ports(child, layer)
            elif tag == "back_edges":
                layer.back_edges = [self._back_edge(e) for e in self.children(child)]
            elif _BODY.fullmatch(tag):
                layer.bodies = {**layer.bodies, tag: self.body(child, depth + 1)}
            elif _MAP.fullmatch(tag):
                entries = [self._entry(e) for e in self.children(child)]
                layer.maps = {**layer.maps, tag: entries}
            elif tag in _MISPLACED:
                raise self.fail(
                    child,
                    "an element that does not belong into <layer>",
                    f"<{tag}>",
                    "<data>, <input>, <output>, <rt_info>, bodies and their port maps",
                )
        return layer

    def attributes(self, element: Any) -> Info:
        """`<attribute name= version= .../>` of a layer's or port's rt_info; the rest is skipped."""
        return {
            child.get("name"): {k: v for k, v in child.attrib.items() if k != "name"}
            for child in element
            if child.tag == "attribute" and child.get("name")
        }

    def _ports(self, element: Any, layer: XmlLayer) -> list[XmlPort]:
        ports: list[XmlPort] = []
        seen: set[int] = set()
        for child in self.children(element):
            if child.tag != "port":
                raise self.fail(
                    child, f"an unknown element in <{element.tag}>", f"<{child.tag}>", "<port>"
                )
            port = self._port(child)
            if port.id in seen:
                raise layer.error(
                    f"two ports of <{element.tag}> have one id (line {child.sourceline})",
                    got=port.id,
                    expected="each id once",
                )
            seen.add(port.id)
            if element.tag == "output" and port.precision is None:
                raise layer.error(
                    f"output port {port.id} has no precision",
                    got=tag_text("port", child.attrib),
                    expected='precision="FP32" in it, or another element type',
                )
            ports.append(port)
        return ports

    def _port(self, element: Any) -> XmlPort:
        dims: list[int] = []
        rt_info = NO_INFO
        for child in self.children(element):
            if child.tag == "dim":
                dims.append(self._dim(child))
            elif child.tag == "rt_info":
                rt_info = self.attributes(child)
            else:
                raise self.fail(
                    child,
                    "an unknown element in <port>",
                    f"<{child.tag}>",
                    "<dim> or <rt_info>",
                )
        names = words.name_set(element.get("names", ""))
        precision = element.get("precision")
        return XmlPort(
            self.number(element, "id", words.parse_unsigned),
            None if precision is None else sys.intern(precision),
            tuple(dims),
            names,
            rt_info,
        )

    def _dim(self, element: Any) -> int:
        text = element.text or ""
        for child in element:
            self._no_text(element, child.tail)
            if isinstance(child.tag, str):
                raise self.fail(element, "<dim> holds an element", f"<{child.tag}>", "a number")
        try:
            size = words.integer(text)
        except BadText as bad:
            raise self.fail(element, "a bad size", shorten_text(text), bad.expected) from None
        if size < -1:
            raise self.fail(element, "a negative size", size, "0 or more, or -1 for any size")
        return size

    def _entry(self, element: Any) -> MapEntry:
        if element.tag not in ("input", "output"):
            raise self.fail(
                element,
                "an unknown element in a port map",
                f"<{element.tag}>",
                "<input> or <output>",
            )
        return MapEntry(element.tag == "output", dict(element.attrib), element.sourceline)

    def _back_edge(self, element: Any) -> tuple[int, int]:
        if element.tag != "edge":
            raise self.fail(
                element, "an unknown element in <back_edges>", f"<{element.tag}>", "<edge>"
            )
        source = self.number(element, "from-layer", words.parse_unsigned)
        return source, self.number(element, "to-layer", words.parse_unsigned)
