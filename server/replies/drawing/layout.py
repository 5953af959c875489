"""Place a drawn graph: a row of boxes for each layer, the root at the top, every box beneath its parent where it can be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from leanrag_engine.core.grouping import group

from .lettering import measure
from .selection import DrawnGraph, DrawnNode


@dataclass(frozen=True, slots=True)
class DrawingSize:
    """The sizes of a drawing, in pixels."""

    width: int = 980
    box: int = 148  # Width of a box
    height: int = 54
    gap: int = 12  # Between boxes of a row
    heading: int = 22  # Height of the line that names a layer
    drop: int = 58  # Between the lines of boxes: room for links, curves and their labels
    margin: int = 14

    @property
    def columns(self) -> int:
        return (self.width - 2 * self.margin + self.gap) // (self.box + self.gap)


WIDE = DrawingSize()
NARROW = DrawingSize(width=360, box=106, height=62, gap=7)  # For the width of a phone


@dataclass(frozen=True, slots=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: "Rectangle") -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.bottom
            and other.y < self.bottom
        )


@dataclass(slots=True)
class NodePlaces:
    """Where the boxes stand, by id of the node; the headings of the layers, by layer; and how high all is."""

    boxes: dict[str, Rectangle] = field(default_factory=dict)
    headings: dict[int, float] = field(default_factory=dict)
    height: float = 0.0


def lay_out(graph: DrawnGraph, form: DrawingSize) -> NodePlaces:
    """Return the places of all nodes. Boxes never overlap; the same graph always gets the same places."""
    layout = NodePlaces()
    centres = _find_centres(graph, form)
    y = float(form.margin)
    for row in graph.layers:
        layout.headings[row[0].entity.layer] = y
        y += form.heading
        for line in _break_row(row, form):
            for node in line:
                x = centres[node.entity.id] - form.box / 2
                layout.boxes[node.entity.id] = Rectangle(x, y, form.box, form.height)
            y += form.height + form.drop
    layout.height = y - form.drop / 3
    return layout


def _break_row(row: Sequence[DrawnNode], form: DrawingSize) -> list[Sequence[DrawnNode]]:
    """Return the row in as few lines as hold it, all about equally long."""
    lines = -(-len(row) // form.columns)
    return [row[len(row) * n // lines : len(row) * (n + 1) // lines] for n in range(lines)]


def _find_centres(graph: DrawnGraph, form: DrawingSize) -> dict[str, float]:
    """Return the x of each box's middle: above its children, from the lowest layer up."""
    children = group((link.parent, link.child) for link in graph.links)
    centres: dict[str, float] = {}
    for row in reversed(graph.layers):
        for line in _break_row(row, form):
            ids = [node.entity.id for node in line]
            even = (form.width - 2 * form.margin) / len(ids)
            wanted = {
                id_: fmean(centres[child] for child in children[id_])
                if id_ in children
                else form.margin + even * (place + 0.5)
                for place, id_ in enumerate(ids)
            }
            centres |= _space(ids, wanted, form)
    return centres


def _space(ids: Sequence[str], wanted: Mapping[str, float], form: DrawingSize) -> dict[str, float]:
    """Return the places nearest to those ``wanted`` at which boxes in this order do not overlap and stay within the width."""
    step, half = form.box + form.gap, form.box / 2
    least, most = form.margin + half, form.width - form.margin - half
    places: list[float] = []
    for id_ in ids:
        places.append(max(wanted[id_], least, places[-1] + step if places else least))
    for place in range(len(places) - 1, -1, -1):
        limit = places[place + 1] - step if place + 1 < len(places) else most
        places[place] = min(places[place], limit)
    return dict(zip(ids, places, strict=True))


class Labels:
    """Places for the labels of curves, none of which overlaps another or a box."""

    def __init__(self, taken: Sequence[Rectangle]) -> None:
        self._taken = list(taken)

    def place(self, text: str, size: float, candidates: Sequence[tuple[float, float]]) -> Rectangle | None:
        """Take the first of the ``candidates`` (middles) that is free; return None if none is."""
        width, height = measure(text, size) + 4, size + 4
        for x, y in candidates:
            area = Rectangle(x - width / 2, y - height / 2, width, height)
            if not any(area.overlaps(each) for each in self._taken):
                self._taken.append(area)
                return area
        return None
