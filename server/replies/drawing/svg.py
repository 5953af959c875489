"""Draw one answer as an SVG that loads and runs nothing and follows the reader's light or dark mode."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count as count_up

from leanrag_engine.core.model import EXCERPT, ContextLine, Relation
from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.retrieval.query import QueryResult

from ..base import Count
from .accounting import FRAME, TokenAccount, count_parts
from .layout import NARROW, WIDE, DrawingSize, Labels, NodePlaces, Rectangle, lay_out
from .lettering import FONT, escape_text, fit_line, measure, read_style, wrap
from .selection import DrawnGraph, DrawnNode, select_graph

SIZE = 12  # Of the letters, in pixels

LIGHT = (
    "--paper:#fff;--ink:#1b1b1b;--soft:#595959;--rule:#d0d0d0;--plain:#f2f2f2;--edge:#767676;--seed:#dcebf7;"
    "--seed-edge:#0072b2;--lca:#fcebc8;--lca-edge:#a86400;--stray:#fbe3d6;--stray-edge:#c44f00;--tie:#007a5a;--bridge:#a8457f"
)
DARK = (
    "--paper:#161616;--ink:#f0f0f0;--soft:#b0b0b0;--rule:#4a4a4a;--plain:#2a2a2a;--edge:#9a9a9a;--seed:#0b3a57;"
    "--seed-edge:#56b4e9;--lca:#4a3405;--lca-edge:#e69f00;--stray:#4c2008;--stray-edge:#ff8f50;--tie:#2fc79b;--bridge:#e394c2"
)
# The hues of Okabe and Ito, which people with any colour vision tell apart; what a colour says is also said by a word
# or by the kind of line.
STYLE = read_style("answer.css", light=LIGHT, dark=DARK, font=FONT, size=SIZE)


def draw_answer(result: QueryResult, count: Count, *, narrow: bool = False, evidence: bool = True) -> str:
    """Return the SVG of an answer, whose width is that of a desktop's page or, ``narrow``, that of a phone.

    ``count`` returns the tokens of texts: ``engine.count_tokens``. With ``evidence``, the lines of the context are listed
    below. At most 30 nodes are drawn, and the rest is counted.

    The text is safe to embed in a page: all names are escaped. Its style element needs a policy that allows it; as the
    source of an image it needs none. Example::

        result = await engine.query(Query(text="Who designed Skerryvore?"), collection="default")
        svg = draw_answer(result, engine.count_tokens)
    """
    graph = select_graph(result.subgraph)
    account = count_parts(result.context, count)
    pen = _Pen(NARROW if narrow else WIDE)
    pen.write_paragraph(result.query.text, SIZE + 4, "strong", most=4)
    pen.write_paragraph(describe_graph(result, graph), SIZE, "soft", most=6)
    if graph.layers:
        pen.draw_graph(graph)
        pen.write_legend(graph)
    pen.write_tokens(account)
    if evidence:
        pen.write_lines(result.context.lines, account)
    return pen.finish(f"Answer drawn: {result.query.text}", describe_answer(result, graph, account))


def describe_graph(result: QueryResult, graph: DrawnGraph) -> str:
    """Return what a drawing shows in one or two sentences, and what it leaves out."""
    seeds = [node for node in graph.nodes if node.score is not None]
    if not graph.layers:
        return "Passages alone: nothing of the hierarchy took part in this answer."
    said = [f"{count_things(len(seeds), 'seed')}, {count_things(len(graph.nodes), 'node')} drawn."]
    if result.subgraph.lca:
        root = " (the root)" if result.subgraph.lca.parent_id is None else ""
        said.append(f"All seeds meet in {plain_name(result.subgraph.lca.name)}{root}.")
    if stray := [plain_name(node.entity.name) for node in graph.nodes if node.stray]:
        where = "only at the root" if result.subgraph.groups else "no other"
        said.append(
            f"Stray, meeting {'the others ' * bool(result.subgraph.groups)}{where}: {', '.join(stray)}."
        )
    left = [
        count_things(number, noun)
        for number, noun in ((graph.nodes_left_out, "node"), (graph.relations_left_out, "relation"))
        if number
    ]
    if left:
        seeds_left = f" ({count_things(graph.seeds_left_out, 'seed')} among them)" * bool(
            graph.seeds_left_out
        )
        said.append(f"Not drawn: {' and '.join(left)}{seeds_left}.")
    return " ".join(said)


def describe_answer(result: QueryResult, graph: DrawnGraph, account: TokenAccount) -> str:
    """Return the drawing in words, for those who do not see it."""
    said = [describe_graph(result, graph)]
    said += [
        f"{', '.join(plain_name(seed.name) for seed in group.seeds)}: joined by {plain_name(group.lca.name)}."
        for group in result.subgraph.groups
    ]
    said.append(f"{count_things(account.total, 'token')}: {account.list_kinds()}.")
    return " ".join(said)


def plain_name(name: str) -> str:
    """Return a name as it stands in a sentence of a drawing."""
    return wrap(name, 1, 60, 1)[0]


class _Pen:
    """Writes the elements of a drawing from the top down."""

    def __init__(self, form: DrawingSize) -> None:
        self._form = form
        self._y = float(form.margin)
        self._elements: list[str] = []

    @property
    def _room(self) -> float:
        return self._form.width - 2 * self._form.margin

    def finish(self, title: str, description: str) -> str:
        width, height = self._form.width, round(self._y + self._form.margin)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="leanrag-answer" role="img" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" aria-label="{escape_text(title)}">'
            f"<title>{escape_text(title)}</title><desc>{escape_text(description)}</desc><style>{STYLE}</style>"
            f'<rect class="paper" width="{width}" height="{height}"/>{"".join(self._elements)}</svg>'
        )

    def write_paragraph(self, text: str, size: float, style: str, most: int) -> None:
        for line in wrap(text, size, self._room, most):
            self._y += size * 1.4
            self._text(self._form.margin, self._y, line, style, size)
        self._y += size * 0.5

    def _text(
        self, x: float, y: float, text: str, style: str = "", size: float = SIZE, anchor: str = ""
    ) -> None:
        styled = f' class="{style}"' if style else ""
        sized = f' font-size="{size:g}"' if size != SIZE else ""
        anchored = f' text-anchor="{anchor}"' if anchor else ""
        self._elements.append(
            f'<text x="{x:.1f}" y="{y:.1f}"{styled}{sized}{anchored}>{escape_text(text)}</text>'
        )

    # --- the graph -------------------------------------------------------------------------

    def draw_graph(self, graph: DrawnGraph) -> None:
        """Draw layers as rows, the root at the top: links, then relations, then the boxes over them."""
        layout = lay_out(graph, self._form)
        self._elements.append(f'<g transform="translate(0 {self._y:.1f})">')
        names = {node.entity.id: node.entity.name for node in graph.nodes}
        links = [
            (each, _descend(layout.boxes[each.parent], layout.boxes[each.child])) for each in graph.links
        ]
        # Curves of one row reach different depths, so that few lie on each other.
        relations = [
            (each, _join(layout.boxes[each.source_id], layout.boxes[each.target_id], 26 + number % 3 * 11))
            for number, each in enumerate(graph.relations)
        ]
        for row in graph.layers:
            layer = row[0].entity.layer
            top, short = layout.headings[layer], f"Layer {layer}"
            root = ", the root" if any(node.is_root for node in row) else ""
            crossings = [x for _, curve in (*links, *relations) for x in curve.cross(top, top + SIZE + 4)]
            self._write_heading(
                [f"{short}{root}{' · names and terms' * (not layer)}", short], top + SIZE, crossings
            )
        for link, curve in links:
            kind = "joining" if link.joining else "upward"
            self._elements.append(f'<path class="{kind}" d="{curve.path}"/>')
        self._draw_relations(relations, layout, names)
        for node in graph.nodes:
            self._draw_box(node, layout.boxes[node.entity.id])
        self._elements.append("</g>")
        self._y += layout.height

    def _write_heading(self, texts: Sequence[str], y: float, crossings: Sequence[float]) -> None:
        """Write the first of the texts for which there is room between the lines that cross this height, with a rule beside it."""
        least, most = self._form.margin, self._form.width - self._form.margin
        starts = [least, *(each + 8 for each in sorted(crossings))]
        places = [(text, x, x + measure(text, SIZE - 1)) for text in texts for x in starts]
        free = (
            each
            for each in places
            if each[2] <= most and not any(each[1] - 4 < x < each[2] + 4 for x in crossings)
        )
        text, x, end = next(free, places[-len(starts)])
        rule = f"M{least}.0 {y - 4:.1f}H{max(x - 6, least):.1f}M{end:.1f} {y - 4:.1f}H{most}"
        self._elements.append(f'<path class="rule" d="{rule}"/>')
        self._text(x, y, text, "soft", SIZE - 1)

    def _draw_relations(
        self, relations: Sequence[tuple[Relation, "_Curve"]], layout: NodePlaces, names: dict[str, str]
    ) -> None:
        """Draw relations as curves below their boxes, those between clusters with λ, the wider the greater it is: never as
        wide as a path to the LCA, which says more of the answer."""
        heads = [Rectangle(0, y, self._form.width, self._form.heading - 4) for y in layout.headings.values()]
        labels = Labels([*layout.boxes.values(), *heads])
        strongest = max((each.strength for each, _ in relations if each.layer), default=1)
        for each, curve in relations:
            ends = " — ".join(names[id_] for id_ in (each.source_id, each.target_id))
            text = f"λ {each.strength}" if each.layer else ""
            said = f"{ends}{f', λ {each.strength}, support {each.support}' if each.layer else ''}"
            width = f' stroke-width="{0.8 + 1.4 * each.strength / strongest:.1f}"' if each.layer else ""
            self._elements.append(
                f'<path class="{"bridge" if each.layer else "tie"}"{width} d="{curve.path}"><title>{escape_text(said)}</title></path>'
            )
            if text:
                points = [curve.point(t) for t in (0.5, 0.35, 0.65, 0.2, 0.8)]
                if area := labels.place(text, SIZE - 1, points):
                    self._elements.append(
                        f'<rect class="paper" x="{area.x:.1f}" y="{area.y:.1f}" width="{area.width:.1f}" height="{area.height:g}"/>'
                    )
                    self._text(area.middle, area.y + SIZE, text, "label strong", SIZE - 1, anchor="middle")

    def _draw_box(self, node: DrawnNode, box: Rectangle) -> None:
        held = {"seed": node.score is not None, "lca": node.joins > 1, "stray": node.stray}
        roles = [name for name, holds in held.items() if holds]
        # Bold letters are a tenth wider.
        lines = wrap(node.entity.name, SIZE * (1.1 if roles else 1), box.width - 10, 2)
        said = _describe_node(node)
        self._elements.append(
            f'<g><title>{escape_text(f"{node.entity.name}: {said}")}</title><rect class="{" ".join(["box", *roles])}" '
            f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:g}" height="{box.height:g}" rx="7"/>'
        )
        y = box.y + (box.height - (len(lines) * 15 + 14)) / 2
        for line in lines:
            y += 15
            self._text(box.middle, y - 3, line, "strong" if roles else "", anchor="middle")
        said = fit_line(said, SIZE - 2, box.width - 8)
        self._text(box.middle, y + 11, said, "soft", SIZE - 2, anchor="middle")
        self._elements.append("</g>")

    # --- words -----------------------------------------------------------------------------

    def write_legend(self, graph: DrawnGraph) -> None:
        """Explain the kinds of boxes and lines that occur."""
        nodes, links, relations = graph.nodes, graph.links, graph.relations
        entries = [
            ("box", "seed", "seed: the question is about it", any(node.score is not None for node in nodes)),
            ("box", "lca", "LCA: where seeds meet", any(node.joins > 1 for node in nodes)),
            ("box", "seed stray", "stray: meets others only at the root", any(node.stray for node in nodes)),
            ("line", "joining", "path to the LCA", any(link.joining for link in links)),
            ("line", "upward", "way to the root", any(not link.joining for link in links)),
            ("line", "tie", "relation in a passage", any(not each.layer for each in relations)),
            ("line", "bridge", "relation of clusters, wider by λ", any(each.layer for each in relations)),
        ]
        marks = {
            "box": '<rect class="box {}" y="-10" width="22" height="12" rx="3"/>',
            "line": '<path class="{}" stroke-width="3" d="M0 -4h22"/>',
        }
        self._y += 18
        self._write_keys(
            [(marks[shape].format(style), text) for shape, style, text, occurs in entries if occurs], 28
        )
        self._y += 14

    def _write_keys(self, keys: Sequence[tuple[str, str]], space: int) -> None:
        """Write marks, each with its meaning from ``space`` on, in as many lines as they need."""
        x = least = float(self._form.margin)
        for mark, text in keys:
            needed = space + measure(text, SIZE - 1) + 14
            if x > least and x + needed > self._form.width - least:
                x, self._y = least, self._y + 19
            self._elements.append(f'<g transform="translate({x:.1f} {self._y:.1f})">{mark}</g>')
            self._text(x + space, self._y, text, "soft", SIZE - 1)
            x += needed

    def write_tokens(self, account: TokenAccount) -> None:
        """Write how many tokens each part of the context takes, and draw it as one bar."""
        self._y += 20
        self._text(
            self._form.margin, self._y, f"The context: {count_things(account.total, 'token')}", "strong"
        )
        self._y += 8
        x = float(self._form.margin)
        styles = count_up()
        keys = []
        for kind, tokens in account.kinds:
            style = "frame" if kind == FRAME else f"part{next(styles) % 6}"
            width = max(self._room * max(tokens, 0) / max(account.total, 1), 0)
            self._elements.append(
                f'<rect class="{style}" x="{x:.1f}" y="{self._y:.1f}" width="{width:.1f}" height="12"/>'
            )
            x += width
            keys.append((f'<rect class="{style}" y="-9" width="10" height="10"/>', f"{kind} {tokens:,}"))
        self._y += 28
        self._write_keys(keys, 15)
        self._y += 8

    def write_lines(self, lines: Sequence[ContextLine], account: TokenAccount) -> None:
        """List the evidence, best first: its citations, its tokens and how it begins."""
        narrow = self._form is NARROW
        most = 16
        for line, tokens in list(zip(lines, account.lines, strict=True))[:most]:
            self._y += 20
            cited = " ".join(f"[{each}]" for each in line.citations)
            figures = f"{cited} {line.kind}, {count_things(tokens, 'token')}"
            self._text(self._form.margin, self._y, figures, "strong", SIZE - 1)
            text = line.text if line.kind == EXCERPT else f"{line.subject}: {line.text}"
            x = self._form.margin if narrow else self._form.margin + 240
            self._y += 15 if narrow else 0
            text = fit_line(text, SIZE - 1, self._form.width - self._form.margin - x)
            self._text(x, self._y, text, "", SIZE - 1)
        if (more := len(lines) - most) > 0:
            self._y += 20
            self._text(self._form.margin, self._y, f"and {count_things(more, 'line')} more", "soft", SIZE - 1)
        self._y += 8


@dataclass(frozen=True, slots=True)
class _Curve:
    """A curve that leaves both ends upright, towards the height ``bend``."""

    start: tuple[float, float]
    end: tuple[float, float]
    bend: float

    @property
    def path(self) -> str:
        (x0, y0), (x1, y1) = self.start, self.end
        return f"M{x0:.1f} {y0:.1f}C{x0:.1f} {self.bend:.1f} {x1:.1f} {self.bend:.1f} {x1:.1f} {y1:.1f}"

    def point(self, t: float) -> tuple[float, float]:
        s = 1 - t
        (x0, y0), (x1, y1) = self.start, self.end
        near, far = s**2 * (s + 3 * t), t**2 * (t + 3 * s)
        return near * x0 + far * x1, s**3 * y0 + 3 * s * t * self.bend + t**3 * y1

    def cross(self, top: float, bottom: float) -> list[float]:
        """Return the x of its points between two heights."""
        return [x for x, y in (self.point(n / 64) for n in range(65)) if top <= y <= bottom]


def _descend(upper: Rectangle, lower: Rectangle, shift: float = 0.0) -> _Curve:
    """Return the curve from a box down to another, so far to the right of their middles."""
    ends = (upper.middle + shift, upper.bottom), (lower.middle + shift, lower.y)
    return _Curve(*ends, (upper.bottom + lower.y) / 2)


def _join(first: Rectangle, second: Rectangle, depth: float) -> _Curve:
    """Return the curve of a relation: below two boxes of one line, or from one line down to the next."""
    if first.y != second.y:
        upper, lower = sorted((first, second), key=lambda box: box.y)
        return _descend(upper, lower, upper.width * 0.2)
    left, right = sorted((first, second), key=lambda box: box.x)
    shift = left.width * 0.2
    return _Curve(
        (left.middle + shift, left.bottom), (right.middle - shift, right.bottom), left.bottom + depth
    )


def _describe_node(node: DrawnNode) -> str:
    parts = []
    if node.score is not None:
        parts.append(f"{'stray ' * node.stray}seed {node.score:.2f}")
    if node.joins > 1:
        parts.append(f"LCA of {node.joins} seeds")
    if node.is_root:
        parts.append("root")
    if not parts:
        parts.append(f"holds {node.entity.mentions:,}" if node.entity.layer else node.entity.type)
    return ", ".join(parts)
