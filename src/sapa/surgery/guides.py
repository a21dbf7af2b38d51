"""From a trace to its sites: which maps could guide each, by following the data forwards and back."""

from collections.abc import Iterable
from math import prod

from sapa.geometry import Size
from sapa.surgery.recipes import is_no_feature
from sapa.surgery.sites import Guide, Site, Sites
from sapa.surgery.trace import ROOT, Address, Node, Resize, Trace

JOINS = {
    **dict.fromkeys(("add", "add_", "__add__", "__radd__", "__iadd__"), "added"),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack"), "concatenated"),
    **dict.fromkeys(("mul", "mul_", "__mul__", "__rmul__", "__imul__"), "multiplied"),
}
KINDS = ("argument", "output", "function")  # those that change least with the code of a model come first


def sites_of(trace: Trace) -> Sites:
    """The calls that made a map larger.

    Those of a module that runs more than once are one site if each run brings its guide, as where it is an argument.
    """
    groups: dict[tuple[str, int], list[Resize]] = {}
    for resize in filter(is_larger, trace.resizes):
        if is_no_feature(resize.frame.owner, resize.ordinal):
            continue
        groups.setdefault((resize.frame.path, resize.ordinal), []).append(resize)
    reader = Reader(trace)
    sites = Sites()
    for calls in groups.values():
        turns: dict[tuple[str, int], list[Resize]] = {}
        for call in calls:
            caller = call.frame.outer[-1].path if call.frame.outer else ""
            turns.setdefault((caller, call.frame.turn), []).append(call)
        site = reader.site(calls)
        if len(turns) == 1 or (site.guides and site.guides[0].joined and site.guides[0].scope == site.path):
            sites.append(site)
        else:
            sites += [reader.site(found, caller, turn) for (caller, turn), found in turns.items()]
    for site in sites:
        several = [other for other in sites if other.path == site.path]
        if len(several) > 1:
            site.name += f"[{[other is site for other in several].index(True)}]"
    return sites


def is_larger(call: Resize) -> bool:
    low, size = call.x.size, call.y.size
    return low is not None and size is not None and low != size and size[0] >= low[0] and size[1] >= low[1]


class Reader:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.resize_of = {resize.y: resize for resize in trace.resizes if is_larger(resize)}
        self.made_of_upsampled: set[Node] = set()
        for node in trace.nodes:
            near = [parent for parent in node.parents if parent.size == node.size]
            if node in self.resize_of or not self.made_of_upsampled.isdisjoint(near):
                self.made_of_upsampled.add(node)

    def site(self, calls: list[Resize], caller: str | None = None, turn: int = 0) -> Site:
        first = calls[0]
        site = Site(
            first.frame.path or ROOT,
            first.frame.path,
            first.ordinal,
            caller,
            turn,
            first.function,
            first.mode,
            first.x.size or (0, 0),
            first.y.size or (0, 0),
            first.x.shape[1],
            first.y.shape[1],
            first.x.dtype,
            first.x.device,
            is_pooled=all(is_pooled(call.x) for call in calls),
            is_changed=any(call.x.changed is not None for call in calls),
        )
        notes = []
        if len(calls) > 1:
            notes.append(f"runs {len(calls)} times")
        if {call.x.shape[1] for call in calls} != {site.channels}:
            site.note = f"runs {len(calls)} times with different channels"
            return site
        join, others = self.join(first)
        guides, late = self.joined(calls, join, others)
        names = {guide.name for guide in guides}
        seen = [guide for guide in self.seen(calls, site.size) if guide.name not in names]
        if site.is_pooled:
            notes.append("spreads a pooled map")
        elif not guides and seen:
            notes.append("guide is not joined, only seen")
        elif not guides and late:
            notes.append("its guide is made only afterwards")
        elif not guides:
            notes.append("no map of this size before it")
        if len(guides) > 1:
            notes.append(f"others for guide=: {', '.join(guide.name for guide in guides[1:])}")
        if not all(call.has_grad for call in calls):
            notes.append("runs without gradients")
        site.guides = (*guides, *seen)
        site.between = self.between(calls, site, join)
        site.note = "; ".join(notes)
        return site

    def join(self, call: Resize) -> tuple[Node | None, list[Node]]:
        """Where the result first meets a map of its size that is not made of it, and those maps."""
        size, low = call.y.size or (0, 0), call.x.size or (1, 1)
        slack = (size[0] / low[0], size[1] / low[1])
        derived = {call.y}
        for node in self.trace.nodes[call.y.time + 1 :]:
            if derived.isdisjoint(node.parents):
                continue
            others = [
                other
                for other in dict.fromkeys(node.parents)
                if other not in derived and other.size is not None and is_near(other.size, size, slack)
            ]
            if others:
                return node, others
            if follows(node, size, slack):
                derived.add(node)
        return None, []

    def joined(self, calls: list[Resize], join: Node | None, others: list[Node]) -> tuple[list[Guide], bool]:
        """Guides from a join, those that were not themselves upsampled first, and whether one came too late."""
        found, late = [], False
        for other in sorted(others, key=lambda node: (*self.upsampled(node), -node.time)):
            for node in ancestors(other):
                if node.size == other.size and node.time < calls[0].y.time and not is_idle(node):
                    guide = self.guide(calls, node, JOINS.get(join.function, "joined") if join else "")
                    if guide is not None:
                        found += [guide] if guide.name not in [known.name for known in found] else []
                        break
            else:
                late = True
        return found, late

    def upsampled(self, node: Node) -> tuple[bool, bool]:
        """Whether a map comes straight from a site, or is made of one that does: either guides worse."""
        return node in self.resize_of, node in self.made_of_upsampled

    def seen(self, calls: list[Resize], size: Size) -> list[Guide]:
        """Outputs of modules, and the example itself, that had this size before: of the outermost modules first."""
        nodes = [
            (self.upsampled(node)[1], min(address.path.count(".") for address in outside), -node.time, node)
            for node in self.trace.nodes[: calls[0].y.time]
            if node.size is not None and is_near(node.size, size, (2, 2)) and node not in self.resize_of
            if (outside := [a for a in node.addresses if a.kind == "output" or (a.kind, a.path) == ("argument", "")])
        ]
        guides = [self.guide(calls, node, "") for *_, node in sorted(nodes, key=lambda found: found[:3])]
        return list({guide.name: guide for guide in guides if guide is not None}.values())

    def between(self, calls: list[Resize], site: Site, join: Node | None) -> tuple[Guide, ...]:
        """One map for each halving of the result's size that is still larger than the low-res map."""
        siblings = []
        for other in join.parents if join is not None else ():
            siblings += [self.resize_of[node].x for node in ancestors(other) if node in self.resize_of]
        found: list[Guide] = []
        height, width = site.size
        while height >= 3 * site.low[0] and width >= 3 * site.low[1]:
            height, width = -(-height // 2), -(-width // 2)
            guides = [
                self.guide(calls, node, "joined")
                for node in sorted(siblings, key=lambda node: -node.time)
                if node.time < calls[0].y.time and node.size and is_near(node.size, (height, width), (2, 2))
            ]
            guides += self.seen(calls, (height, width))[:1]
            found += [guide for guide in guides if guide is not None][:1]
        return tuple(reversed(found))

    def guide(self, calls: list[Resize], node: Node, joined: str) -> Guide | None:
        """The best of the addresses at which this map, or its like, lies at each call of the site."""
        best: tuple[tuple[int, ...], Guide] | None = None
        for address in node.addresses:
            depths, is_changed = [], False
            for call in calls:
                at_hand = self.trace.at(address, call.y.time)
                if at_hand is None or (call is calls[0] and at_hand[1] is not node):
                    break
                frame, there = at_hand
                if there.size is None or there.shape[1] != node.shape[1] or there.shape[0] != call.x.shape[0]:
                    break
                if call is not calls[0] and there.size != call.y.size:
                    break
                common = [one for one, other in zip(frame.stack, call.frame.stack, strict=False) if one is other]
                depths.append((len(common), common[-1].path))
                is_changed |= there.changed is not None and there.changed > call.y.time
            else:
                if len({path for _, path in depths}) == 1:
                    depth, scope = depths[0]
                    rank = (-depth, KINDS.index(address.kind), address.path.count("."), len(address.place))
                    name = name_of(node.addresses)
                    chosen = Guide(name, node.shape[1], node.size or (0, 0), joined, address, scope, depth, is_changed)
                    if best is None or rank < best[0]:
                        best = rank, chosen
        return None if best is None else best[1]


def name_of(addresses: Iterable[Address]) -> str:
    """The shortest way to say where a map comes from: the module that made it rather than one that takes it."""
    order = {"output": 0, "function": 1, "argument": 2}
    example = [a for a in addresses if a.kind == "argument" and not a.path]
    return str(min(example or addresses, key=lambda a: (order[a.kind], a.path.count("."), len(a.place))))


def follows(node: Node, size: Size, slack: tuple[float, float]) -> bool:
    """Whether a map is still on the grid of the result, in either order of its axes, or flattened."""
    if len(node.shape) != 4:
        return prod(node.shape) >= prod(size)
    return is_near(node.shape[2:], size, slack) or node.shape[1:3] == size


def is_near(size: tuple[int, ...], other: Size, slack: tuple[float, float]) -> bool:
    """Equal up to what is padded or cut: less than a low-res point, and than a quarter."""
    return all(
        abs(n - wanted) < limit and 4 * abs(n - wanted) <= wanted
        for n, wanted, limit in zip(size, other, slack, strict=True)
    )


def ancestors(node: Node) -> list[Node]:
    """The map and what it was made of on the same grid, flattened too, from the youngest to the oldest."""
    found, todo = {node}, [node]
    while todo:
        for parent in todo.pop().parents:
            if parent not in found and is_on_grid(parent, node.size or (0, 0)):
                found.add(parent)
                todo.append(parent)
    return sorted(found, key=lambda near: -near.time)


def is_on_grid(node: Node, size: Size) -> bool:
    """Whether a tensor has a number for each point of a grid, in either order of its axes, or flattened."""
    if len(node.shape) == 4:
        return node.size == size or node.shape[1:3] == size
    return len(node.shape) == 3 and prod(size) in node.shape[1:]


def is_idle(node: Node) -> bool:
    """Whether a resizing call had nothing to do."""
    return node.function == "interpolate" and node.parents[0].size == node.size


def is_pooled(x: Node) -> bool:
    """Whether the size of a map comes from a pooling to a fixed size, or is a single point."""
    if x.size == (1, 1):
        return True
    return any(near.function.startswith("adaptive_") for near in ancestors(x))
