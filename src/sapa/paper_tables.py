"""Table 1 of the paper, its sentence, and the cost columns of Tables 2 to 5: what is printed, and what we count."""

import re
from functools import cache
from math import prod
from typing import NamedTuple

import torch

from sapa.complexity import counted, example_of, multiply_accumulates, on_paper, parameters
from sapa.paper_cells import MODELS, NAMES, PARAMS, REASONS, SENTENCE, SETTINGS, TABLE_1
from sapa.tables import Cell, Table

CHANNELS = 256
SIDE = 64
EQUAL = "equal"


def paper_tables() -> list[Table]:
    return [table_1(), sentence(), tables_2_to_5()]


def table_1() -> Table:
    """Multiply-accumulates for each low-res point, and weights without norms and biases, as the paper counts both."""
    rows: list[tuple[Cell, ...]] = []
    for row in TABLE_1:
        sizes = {"C": CHANNELS, **SETTINGS[row.module]}
        printed = evaluate(row.flops, **sizes), evaluate(row.params, **sizes)
        ours = tuple(round(n) for n in measured(row.name)[row.part])
        mark = EQUAL if printed == ours else row.reason
        flops, params = (row.flops, printed[0], ours[0]), (row.params, printed[1], ours[1])
        rows.append((row.module, row.operation, *flops, *params, mark))
    columns = ("FLOPs / HW", "FLOPs, paper", "FLOPs, ours", "Params", "Params, paper", "Params, ours")
    return Table(f"Table 1, at C = {CHANNELS}", ("module", "operation", *columns, "mark"), rows)


def sentence() -> Table:
    """ "When upsampling a 256-channel feature map, the FLOPs are ..." """
    rows: list[tuple[Cell, ...]] = []
    for module, printed in SENTENCE.items():
        formula, ours = total(module), round(measured(NAMES[module])["total"].macs)
        unit, divisor = printed[-1], {"K": 10**3, "M": 10**6}[printed[-1]]
        is_rounded = all(f"{n / divisor:.0f}{unit}" == printed for n in (formula, ours))
        is_cut = all(f"{n // divisor}{unit}" == printed for n in (formula, ours))
        cut = f"cut to {printed}, not rounded" if is_cut else "different"
        rows.append((module, printed, formula, ours, EQUAL if is_rounded else cut))
    columns = ("module", "paper", "formula", "ours", "mark")
    return Table(f"The sentence, FLOPs / HW at C = {CHANNELS}", columns, rows)


def tables_2_to_5() -> Table:
    """GFLOPs (multiply-accumulates) and millions of parameters that an upsampler adds to a model."""
    rows: list[tuple[Cell, ...]] = []
    for model, (number, stages, printed) in MODELS.items():
        for module, cells in printed.items():
            formulas = {"FLOPs": 0.0, "Params": 0.0}
            ours = dict(formulas)
            for y, x, side in stages:
                formulas["Params"] += evaluate(PARAMS[module], x=x, y=y, **SETTINGS[module]) / 1e6
                ours["Params"] += parameters(on_paper(NAMES[module], x, y)) / 1e6
                if side:
                    formulas["FLOPs"] += total(module) * side**2 / 1e9
                    ours["FLOPs"] += macs(NAMES[module], side) / 1e9
            for column, cell in cells.items():
                mark = compare(cell, formulas[column], ours[column])
                if mark != EQUAL:
                    reason = REASONS.get((model, module, column)) or REASONS[module, column]
                    mark = f"{mark}{reason}"
                rows.append((number, model, module, column, cell, formulas[column], ours[column], mark))
    columns = ("table", "model", "upsampler", "column", "paper", "formula", "ours", "mark")
    return Table("Tables 2 to 5, what an upsampler adds: FLOPs in G, Params in M", columns, rows, decimals=3)


def compare(printed: str, formula: float, module: float) -> str:
    """ "equal", or the beginning of a reason why not."""
    decimals = len(printed.partition(".")[2])
    is_formula, is_module = (f"+{n:.{decimals}f}" == printed for n in (formula, module))
    if is_formula and is_module:
        return EQUAL
    return "formula equal; " if is_formula else "ours equal; " if is_module else ""


def evaluate(formula: str, **sizes: int) -> int:
    """The value of a sum of products as the paper writes it, such as "5Cd + 4K²d"."""
    result = 0
    for term in formula.split(" + "):
        number, letters = re.fullmatch(r"(\d*)((?:[A-Za-z]²?)*)", term).groups()  # type: ignore[union-attr]
        factors = (sizes[letter] ** (2 if square else 1) for letter, square in re.findall(r"(\w)(²?)", letters))
        result += int(number or 1) * prod(factors)
    return result


def total(module: str) -> int:
    """The paper's FLOPs for each low-res point, at 256 channels."""
    (formula,) = (row.flops for row in TABLE_1 if row.name == NAMES[module] and row.is_printed_total)
    return evaluate(formula, C=CHANNELS, **SETTINGS[module])


class Share(NamedTuple):
    macs: float  # for each low-res point
    weights: int


@cache
def measured(name: str) -> dict[str, Share]:
    """What the operations of Table 1 take in our module, and the whole."""
    up = on_paper(name, CHANNELS)
    x, *guide = example_of(up, SIDE, "meta")
    flops = counted(up, x, *guide).get_flop_counts()
    weights = {key: p.numel() for key, p in up.named_parameters() if p.ndim > 1}
    by_op = flops["Global"]
    # one operator makes both products of SAPA: d channels of them for the scores, C for the assembly
    attended, dim = by_op.get(torch.ops.sapa.attend, 0), weights.get("k.weight", CHANNELS**2) // CHANNELS
    macs = {
        "total": sum(by_op.values()),
        "assembly": by_op.get(torch.ops.sapa.assemble, 0) + attended * CHANNELS / (CHANNELS + dim),
        "product": attended * dim / (CHANNELS + dim),
        "gate": sum(flops.get("SAPA.gate", {}).values()),
    }
    held = {"total": sum(weights.values()), "assembly": 0, "product": 0, "gate": weights.get("gate.weight", 0)}
    for part in (macs, held):
        part["generation"] = part["total"] - part["assembly"] - part["product"] - part["gate"]
    return {key: Share(macs[key] / 2 / SIDE**2, held[key]) for key in macs}


@cache
def macs(name: str, side: int) -> int:
    up = on_paper(name, CHANNELS)
    return multiply_accumulates(up, *example_of(up, side, "meta"))
