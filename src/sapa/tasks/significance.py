"""What a difference between two upsamplers is worth, when each was trained with a few seeds."""

from collections.abc import Mapping, Sequence
from math import isnan, nan, sqrt
from statistics import mean, stdev

# by which the deviation of a mean is multiplied for an interval that holds the truth 95 times in 100, by degrees of
# freedom
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)

Values = Mapping[str, Mapping[int, float]]  # by upsampler, and then by seed


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation, where there is more than one."""
    return stdev(values) if len(values) > 1 and not any(map(isnan, values)) else None


def student(freedom: int) -> float:
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    # the expansion in 1 / freedom, which is right to 0.001 here
    return 1.96 + 2.372 / freedom + 2.823 / freedom**2 + 2.556 / freedom**3


def difference(values: Values, label: str, base: str) -> tuple[float, float | None]:
    """The mean over seeds of the difference to the base with the same seed, and half the width of its 95% interval.

    What a seed does to all upsamplers alike cancels; what is left over is the noise, taken from all of them together.
    With two upsamplers this is the paired t-test.
    """
    seeds = [seed for seed in values.get(label, {}) if seed in values.get(base, {})]
    found = [values[label][seed] - values[base][seed] for seed in seeds]
    if not found:
        return nan, None
    # one that lacks a seed, or has no number for it, says nothing about the noise of the others
    rows = [[of[seed] for seed in seeds] for of in values.values() if all(seed in of for seed in seeds)]
    rows = [row for row in rows if not any(map(isnan, row))]
    freedom = (len(rows) - 1) * (len(seeds) - 1)
    if freedom < 1 or any(map(isnan, found)):
        return mean(found), None
    columns, whole = [mean(column) for column in zip(*rows, strict=True)], mean(map(mean, rows))
    left = [x - mean(row) - column + whole for row in rows for x, column in zip(row, columns, strict=True)]
    deviation = sqrt(sum(x * x for x in left) / freedom)
    return mean(found), student(freedom) * deviation * sqrt(2 / len(seeds))
