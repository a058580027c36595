"""The page of `irc graph` as a person uses it: mouse and keyboard, in headless Chromium."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import irc_compiler as irc
import onnx
import pytest
from irc_compiler import ops
from irc_compiler.cli.main import main
from onnx import helper
from support.chromium import BROWSER, Page

ROOT = Path(__file__).resolve().parents[3]
DIGITS = str(ROOT / "samples" / "digits" / "digits.onnx")
ENCODER = str(ROOT / "tests" / "support" / "models" / "encoder_torch_dynamo.onnx")
pytestmark = pytest.mark.skipif(not BROWSER, reason="not run: no Chromium (apt install chromium)")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("page")
    path = folder / "digits.html"
    assert main(["graph", DIGITS, "-o", str(path), "--profile"]) == 0
    with Page(path, folder) as opened:
        yield opened
        assert opened.thrown == []


def open_stage(page: Page, name: str) -> None:
    """Click its button."""
    number = page.run(f"data.stages.findIndex(s => s.name === {json.dumps(name)})")
    button = f"nav button:nth-of-type({number + 1})"
    page.run(f"document.querySelector({json.dumps(button)}).scrollIntoView()")
    page.click(button)


def panel(page: Page) -> str:
    return page.run("document.querySelector('#panel').innerText")


@pytest.mark.slow
def test_page_opens_fitted_on_the_last_pass_that_changed_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "m.html"
    x, y = (helper.make_tensor_value_info(n, t, None) for n, t in (("x", 1), ("y", 7)))
    x.type.tensor_type.shape.CopyFrom(helper.make_tensor_type_proto(1, ["N", 4]).tensor_type.shape)
    steps = (("MatMul", ["x", "w"], "p"), ("Relu", ["p"], "r"), ("NonZero", ["r"], "y"))
    nodes = [helper.make_node(kind, inputs, [out], out) for kind, inputs, out in steps]
    weight = helper.make_tensor("w", 1, [4, 4], range(16))
    graph = helper.make_graph(nodes, "positions", [x], [y], [weight])
    onnx.save(helper.make_model(graph, ir_version=8), tmp_path / "m.onnx")
    assert main(["graph", str(tmp_path / "m.onnx"), "-o", str(path)]) == 0
    with Page(path, tmp_path) as opened:
        changed = opened.run("data.stages.map((s, n) => s.same ? -1 : n)")
        assert opened.run("stage") == max(changed) > 0
        # All of it is in view.
        assert opened.run(
            "(s => at.x >= 0 && at.y >= 0 && at.x + s.width * at.k <= view.clientWidth"
            " && at.y + s.height * at.k <= view.clientHeight)(data.stages[stage])"
        )
        shown = panel(opened)
        assert "No native code was generated for these operations:" in shown
        assert "NonZero" in shown and "depends on data" in shown
        assert opened.run("document.querySelectorAll('.box.python').length") == 1
    assert main(["graph", DIGITS, "-o", str(path)]) == 0
    with Page(path, tmp_path) as opened:
        assert "Every operation of the compiled model runs in native code." in panel(opened)


@pytest.mark.slow
def test_the_wheel_zooms_at_the_pointer(page: Page) -> None:
    open_stage(page, "as read")
    x, y = 700, 500
    spot = (
        "(f => [(700 - f.left - at.x) / at.k, (500 - f.top - at.y) / at.k])"
        "(view.getBoundingClientRect())"
    )
    for delta in (-240, 400):
        scale, before = page.run("at.k"), page.run(spot)
        page.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        assert (page.run("at.k") > scale) == (delta < 0) and page.run("at.k") != scale
        assert page.run(spot) == pytest.approx(before)
    shown = page.run("group.getAttribute('transform')")
    assert shown == page.run("`translate(${at.x},${at.y}) scale(${at.k})`")


@pytest.mark.slow
def test_dragging_pans(page: Page) -> None:
    x, y, scale = page.run("[at.x, at.y, at.k]")
    page.mouse("mousePressed", 600, 400)
    page.mouse("mouseMoved", 640, 430)
    page.mouse("mouseMoved", 720, 350)
    page.mouse("mouseReleased", 720, 350)
    assert page.run("[at.x, at.y, at.k]") == pytest.approx([x + 120, y - 50, scale])
    page.mouse("mouseMoved", 900, 600)
    assert page.run("at.x") == pytest.approx(x + 120)


def test_buttons_and_keys_zoom(page: Page) -> None:
    for wish, grows in (("#in", True), ("#out", False)):
        scale = page.run("at.k")
        page.click(wish)
        assert (page.run("at.k") > scale) == grows
    for key, grows in (("+", True), ("-", False)):
        scale = page.run("at.k")
        page.key(key)
        assert (page.run("at.k") > scale) == grows
    page.click("#fit")
    box, view = page.run(
        "[group, view].map(e => (r => [r.left, r.top, r.right, r.bottom])"
        "(e.getBoundingClientRect()))"
    )
    assert box[0] >= view[0] and box[1] >= view[1] and box[2] <= view[2] and box[3] <= view[3]


def test_passes_are_chosen(page: Page) -> None:
    seen = []
    for name in ("as read", "fuse_matmul_add", "fuse_activations"):
        open_stage(page, name)
        assert panel(page).upper().startswith(name.upper())
        seen.append(page.run("group.querySelectorAll('.box').length"))
    assert seen == [12, 10, 7]
    page.key("[")
    assert page.run("group.querySelectorAll('.box').length") == 10
    page.key("]")
    assert page.run("group.querySelectorAll('.box').length") == 7


@pytest.mark.slow
@pytest.mark.parametrize("wish", ["stage=999", "stage=1", "stage=-3", "stage=x", "stage=1.5"])
def test_a_link_to_no_stage_shows_one_before(wish: str, tmp_path: Path) -> None:
    """Passes that changed nothing have no picture of their own."""
    path = tmp_path / "digits.html"
    assert main(["graph", DIGITS, "-o", str(path)]) == 0
    with Page(path, tmp_path, wish) as opened:
        boxes = 7 if wish == "stage=999" else 12
        assert opened.run("group.querySelectorAll('.box').length") == boxes
        assert opened.thrown == []


def test_a_click_shows_attributes_shapes_and_time(page: Page) -> None:
    open_stage(page, "fuse_activations")
    page.click('#scene [data-box="2"]')
    shown = panel(page)
    assert shown.upper().startswith("GEMM")
    for word in (
        "time",
        "of the run",
        'activation="relu"',
        "output 0",
        "f32[N, 64]",
        "Relu_hidden2",
    ):
        assert word in shown, shown
    assert page.run("group.querySelectorAll('.on').length") == 1
    assert page.run("group.querySelectorAll('.edge.near').length") >= 2
    x, y = page.run("(r => [r.left + 4, r.bottom - 4])(view.getBoundingClientRect())")
    page.mouse("mousePressed", x, y)
    page.mouse("mouseReleased", x, y)
    assert (
        page.run("group.querySelectorAll('.on').length") == 0 and "REWRITES" in panel(page).upper()
    )


def test_what_is_chosen_stays_in_sight(page: Page) -> None:
    """The pass in the list, and the bar of the time in the box that is selected."""
    open_stage(page, "as read")
    page.run("document.querySelector('nav').style.maxHeight = '200px'")  # it has to scroll
    page.run("document.querySelector('nav').scrollTop = 0")
    for _ in range(2):
        page.key("]")
    button, frame = page.run(
        "['nav .on', 'nav'].map(s => (r => [r.top, r.bottom])"
        "(document.querySelector(s).getBoundingClientRect()))"
    )
    page.run("document.querySelector('nav').style.maxHeight = ''")
    # Scrolling moves by whole pixels, layout does not.
    assert frame[0] - 1 < button[0] and button[1] < frame[1] + 1
    box = "[...group.querySelectorAll('.box')].find(b => b.querySelector('.heat'))"
    page.run(f"select(+{box}.dataset.box)")
    look = "(s => [s.fill, s.stroke])(getComputedStyle(group.querySelector('.on .heat')))"
    assert page.run(look) == ["rgb(217, 72, 15)", "none"]
    page.run("select(null)")


def test_search_by_name(page: Page) -> None:
    open_stage(page, "as read")
    page.key("/")
    for letter in "hidden":
        page.key(letter)
    assert page.run("document.querySelector('#found').textContent") == "3 found"
    assert page.run("group.querySelectorAll('.hit').length") == 3
    page.key("Enter")
    page.key("Enter")
    assert page.run("document.querySelector('#found').textContent") == "2 of 3"
    assert "Relu_hidden2" in panel(page)
    box, view = page.run(
        "[group.querySelector('.on'), view].map(e => (r => [r.left, r.top, r.right, r.bottom])"
        "(e.getBoundingClientRect()))"
    )
    assert view[0] < box[0] < box[2] < view[2] and view[1] < box[1] < box[3] < view[3]
    page.key("Escape")
    page.run("document.querySelector('#search').value = ''; search()")


def deep_model(path: Path, layers: int) -> None:
    """Six operations a layer; a value read by all of them."""
    x = mask = ops.parameter("x", ["N", 16])
    for _ in range(layers):
        y = ops.tanh(ops.exp(x)) + mask
        x = ops.relu(x * ops.sigmoid(y))
    irc.save_model(ops.model({"y": x}), path)


# The share of pixels of a picture that are far from its commonest colour, in the part of the window
# where the graph is drawn, and how many colours there are.
LOOK = """
(async (url) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const r = view.getBoundingClientRect();
  const sheet = new OffscreenCanvas(r.width, r.height).getContext("2d");
  sheet.drawImage(image, -r.left, -r.top);
  const words = new Uint32Array(sheet.getImageData(0, 0, r.width, r.height).data.buffer);
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  const common = [...counts.entries()].sort((a, b) => b[1] - a[1])[0][0];
  const far = (a, b) => [0, 8, 16].some(s => Math.abs((a >> s & 255) - (b >> s & 255)) > 48);
  let inked = 0;
  for (const [word, count] of counts) if (far(word, common)) inked += count;
  return [inked / words.length, counts.size];
})(%s)
"""


def shown(page: Page, path: Path) -> tuple[float, int]:
    """(share of pixels that are drawn on, colours) of a screenshot, which is kept at `path`."""
    page.screenshot(path)
    url = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    share, colours = page.run(LOOK % json.dumps(url))
    return share, colours


@pytest.mark.slow
@pytest.mark.parametrize("name, views", [("deep", ["fit", "whole"]), ("encoder", ["fit", "whole"])])
def test_screenshots_are_not_blank(name: str, views: list[str], tmp_path: Path) -> None:
    """Pictures for a person to judge: `pytest -s` prints where they are."""
    path, model = tmp_path / f"{name}.html", str(tmp_path / "deep.xml")
    if name == "deep":
        deep_model(Path(model), 100)
    assert main(["graph", ENCODER if name == "encoder" else model, "-o", str(path)]) == 0
    with Page(path, tmp_path) as page:
        for view in views:
            page.run(f"{view}()")
            picture = tmp_path / f"{name}_{view}.png"
            share, colours = shown(page, picture)
            print(f"{picture}: {share:.1%} drawn on, {colours} colours")
            assert share > 0.002 and colours > 16, picture
        page.run("group.style.display = 'none'")
        share, _ = shown(page, tmp_path / "blank.png")
        assert share < 0.0005
        assert page.thrown == []


FRAMES = """
window.frames = [];
let last = performance.now();
const tick = () => {
  const now = performance.now();
  frames.push(now - last);
  last = now;
  requestAnimationFrame(tick);
};
requestAnimationFrame(tick);
"""


@pytest.mark.slow
def test_five_hundred_nodes_stay_fluid(tmp_path: Path) -> None:
    """Frames while 60 turns of the wheel and 60 moves of the mouse come in. `pytest -s` prints how
    long one takes; the bound is generous, as machines are busy and draw without a GPU."""
    deep_model(tmp_path / "deep.xml", 100)
    path = tmp_path / "deep.html"
    assert main(["graph", str(tmp_path / "deep.xml"), "-o", str(path)]) == 0
    with Page(path, tmp_path, "stage=0") as page:
        assert page.run("group.querySelectorAll('.box').length") >= 500
        # As it opens, at the top, in letters that can be read.
        assert page.run("group.querySelector('.title').getBoundingClientRect().height") >= 9
        page.run(FRAMES)
        for view in ("readable", "whole"):
            page.run("whole()" if view == "whole" else "fit()")
            page.run("frames.length = 0")
            for n in range(60):
                page.mouse("mouseWheel", 700, 450, deltaX=0, deltaY=-30 if n % 2 else 30)
            page.mouse("mousePressed", 700, 450)
            for n in range(60):
                page.mouse("mouseMoved", 700 + 3 * n, 450 + n)
            page.mouse("mouseReleased", 880, 510)
            frames = sorted(page.run("frames"))
            middle, most = frames[len(frames) // 2], frames[len(frames) * 9 // 10]
            print(f"{view}: {len(frames)} frames, median {middle:.0f} ms, p90 {most:.0f} ms")
            assert len(frames) >= 10 and middle < 1000
        assert page.thrown == []
