# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Comparing policies
#
# One run of one trace shows that two policies differ, not that one is better. An experiment repeats the comparison over
# many seeds of a synthetic workload; this notebook reads what it leaves in its folder:
#
# | file | one line is |
# |---|---|
# | `rows.csv` | one replay: workload, capacity, policy, seed (columns: `docs/metrics.md`) |
# | `stats.csv` | one metric of one policy over all seeds, with confidence and the comparison with the baseline (`docs/statistics.md`) |
# | `bands.csv` | one moment of the run: median and quartiles over the seeds |
#
# The folder is `results/fragmentation`, or the one that `VRAMLAB_RESULTS` names. This command makes it:
#
#     cargo run --release -- run experiments/fragmentation.toml --out results/fragmentation

# %%
import os
import tempfile
from pathlib import Path
from statistics import NormalDist

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from common import BLACK, BLUE, GREEN, GREY, ORANGE, RED, ROOT, defined, rows, vramlab

FOLDER = Path(os.environ.get("VRAMLAB_RESULTS", ROOT / "results/fragmentation"))
KEY = ["workload", "capacity", "policy"]

data = pd.read_csv(FOLDER / "rows.csv").drop(columns="cell").rename(columns={"trace": "workload"})
data = data.rename(columns={"capacity_asked": "capacity"})
stats = pd.read_csv(FOLDER / "stats.csv")
baseline = stats.baseline.dropna().iloc[0]
policies = list(dict.fromkeys(stats.policy))
scenes = list(dict.fromkeys(zip(stats.workload, stats.capacity)))
print(f"{len(data):,} replays of {data.seed.nunique()} seeds; baseline {baseline}")
print("policies:", ", ".join(policies))
print("metrics: ", ", ".join(dict.fromkeys(stats.metric)))
for workload, capacity in scenes:
    print(f"{workload} at {capacity} the lower bound")

# %% [markdown]
# Two of the metrics are looked at here. Change them to any that `stats.csv` has.

# %%
SPREAD = "mean_external_fragmentation_ppm"
COMPARED = "failed"
defined("metrics.md", [SPREAD, COMPARED])


# %%
# The ratios of docs/metrics.md: a column, and the columns whose sum it is divided by.
RATIOS = {
    "failure_ppm": ("failed", ["served", "failed"]),
    "footprint_to_bound_ppm": ("footprint_bytes", ["lower_bound_bytes"]),
    "fit_to_bound_ppm": ("fit_bytes", ["lower_bound_bytes"]),
    "rounded_to_bound_ppm": ("rounded_peak_bytes", ["lower_bound_bytes"]),
    "cost_share_ppm": ("cost_ns", ["trace_ns", "cost_ns"]),
}


def values(metric):
    """The rows with the value of `metric` beside: a column, or a ratio."""
    if metric not in RATIOS:
        return data.assign(value=data[metric])
    part, whole = RATIOS[metric]
    return data.assign(value=data[part] * 1_000_000 // data[whole].sum(axis=1))


def unit(metric):
    """The divisor that makes a value readable, and the words for an axis."""
    name = metric.rsplit("_", 1)[0].replace("_", " ")
    return {"ppm": (1e4, f"{name}, %"), "bytes": (1024**3, f"{name}, GiB"), "ns": (1e6, f"{name}, ms")}.get(
        metric.rsplit("_", 1)[-1], (1, metric.replace("_", " "))
    )


def panels(height):
    """One panel a workload and capacity, on the same axes."""
    size = (9, height)
    figure, axes = plt.subplots(1, len(scenes), figsize=size, sharex=True, sharey=True, squeeze=False)
    for panel, (workload, capacity) in zip(axes[0], scenes):
        panel.set_title(f"{workload}\nat {capacity}", fontsize=9)
    return figure, axes[0]


# %% [markdown]
# ## How a policy spreads over the seeds
#
# A box from the first to the third quartile with the median in it; whiskers to the farthest point within 1.5 times the
# box; every seed is a point.

# %%
divisor, words = unit(SPREAD)
figure, axes = panels(0.24 * len(policies) + 1.1)
seen = values(SPREAD)
jitter = np.random.default_rng(1)
for panel, (workload, capacity) in zip(axes, scenes):
    here = seen[(seen.workload == workload) & (seen.capacity == capacity)]
    for row, policy in enumerate(policies):
        points = here[here.policy == policy].value.dropna() / divisor
        color = BLACK if policy == baseline else BLUE
        panel.boxplot(
            points,
            positions=[row],
            orientation="horizontal",
            widths=0.6,
            showfliers=False,
            boxprops={"color": color},
            whiskerprops={"color": color},
            capprops={"color": color},
            medianprops={"color": RED},
        )
        panel.plot(points, row + jitter.uniform(-0.2, 0.2, len(points)), ".", color=color, alpha=0.3, markersize=3)
    rows(panel, policies)
figure.supxlabel(words, fontsize=9)
plt.show()

# %% [markdown]
# ## Paired differences from the baseline
#
# Seeds differ more than policies do. On each seed both policies serve the same requests, so their difference is free of
# that spread. Points are mean differences, bars their intervals with 95 % confidence, as `stats.csv` has them. Green is
# better than the baseline, orange worse, after Holm's correction for the number of comparisons; grey is not shown. The
# axis is linear from -1 to 1 and logarithmic beyond.

# %%
divisor, words = unit(COMPARED)
verdicts = {"better": GREEN, "worse": ORANGE, "different": BLUE}
others = [policy for policy in policies if policy != baseline]
figure, axes = panels(0.24 * len(others) + 1.1)
for panel, (workload, capacity) in zip(axes, scenes):
    here = stats[(stats.workload == workload) & (stats.capacity == capacity) & (stats.metric == COMPARED)]
    here = here.set_index("policy").reindex(others)
    for row, line in enumerate(here.itertuples()):
        color = verdicts.get(line.verdict, GREY)
        ends = np.array([line.mean_difference_low, line.mean_difference_high]) / divisor
        panel.plot(ends, [row, row], color=color, linewidth=2)
        panel.plot(line.mean_difference / divisor, row, "o", color=color, markersize=5)
    panel.axvline(0, color=BLACK, linewidth=1)
    panel.set_xscale("symlog", linthresh=1)
    panel.xaxis.set_major_formatter("{x:,g}")
    panel.tick_params(axis="x", labelsize=8)
    rows(panel, others)
figure.supxlabel(f"{words}: mean difference from {baseline}", fontsize=9)
plt.show()

# %% [markdown]
# The same in words, as `stats.csv` gives them. "No difference shown" is not "no difference".

# %%
for workload, capacity in scenes:
    print(f"{workload} at {capacity}")
    here = stats[(stats.workload == workload) & (stats.capacity == capacity) & (stats.metric == COMPARED)]
    for sentence in here[here.policy != baseline].sentence:
        print(f"    {sentence}")

# %% [markdown]
# ## Over time
#
# External fragmentation through the run: the median over the seeds and the band between the quartiles. Where the lines
# part tells when a policy begins to lose. `bands.csv` is large and not committed, so this cell makes one: it runs
# `notebooks/over-time.toml`, four of the policies on the same seeds. A folder of yours brings its own.

# %%
with tempfile.TemporaryDirectory() as made:
    if "VRAMLAB_RESULTS" in os.environ:
        bands = pd.read_csv(FOLDER / "bands.csv")
    else:
        vramlab("run", ROOT / "notebooks/over-time.toml", "--out", made, "--no-plots")
        bands = pd.read_csv(Path(made) / "bands.csv")
bands = bands.rename(columns={"trace": "workload", "capacity_asked": "capacity"})
chosen = [policy for policy in ["first-fit", "best-fit", "buddy", "pytorch"] if policy in policies]
figure, axes = panels(2.8)
for panel, (workload, capacity) in zip(axes, scenes):
    for policy, color in zip(chosen, [BLACK, BLUE, GREEN, ORANGE]):
        here = (bands.workload == workload) & (bands.capacity == capacity) & (bands.policy == policy)
        line = bands[here]
        low, middle, high = (line[f"{part}_external_fragmentation_ppm"] / 1e4 for part in ("q1", "median", "q3"))
        time = 100 * line.point / max(line.point.max(), 1)
        panel.fill_between(time, low, high, color=color, alpha=0.18, linewidth=0)
        panel.plot(time, middle, color=color, linewidth=1, label=policy)
    panel.set(xlim=(0, 100), ylim=(0, 100))
axes[0].set_ylabel("external fragmentation, %")
figure.supxlabel("share of the run, %", fontsize=9)
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
plt.show()

# %% [markdown]
# ## Is `stats.csv` what it says?
#
# First the plain figures of every line, computed again from `rows.csv`: number of seeds, mean, quartiles, extremes, and
# the mean difference.

# %%
checked = 0
for metric, part in stats.groupby("metric"):
    table = values(metric).pivot(index=KEY, columns="seed", values="value").astype(float)
    for line in part.itertuples():
        mine = table.loc[(line.workload, line.capacity, line.policy)]
        base = table.loc[(line.workload, line.capacity, baseline)]
        again = [mine.count(), mine.mean(), *mine.quantile([0.25, 0.5, 0.75]), mine.min(), mine.max()]
        there = [line.n, line.mean, line.first_quartile, line.median, line.third_quartile, line.least, line.greatest]
        if line.policy != baseline:
            again.append((mine - base).mean())
            there.append(line.mean_difference)
        assert np.allclose(again, there, equal_nan=True), (metric, line)
        checked += 1
print(f"{checked} lines of {len(stats)} agree")

# %% [markdown]
# Then one interval: BCa, the bootstrap corrected for bias and acceleration (Efron 1987), of a mean difference, with
# numpy's random numbers instead of vramlab's, on the line with the most seeds that differ. The ends can differ by the noise of 5,000 resamples, a few per cent of
# the width.


# %%
def bca(sample, resamples=5_000, confidence=0.95):
    """The BCa interval of the mean of `sample`."""
    normal = NormalDist()
    draws = np.random.default_rng(0).choice(sample, (resamples, len(sample))).mean(axis=1)
    below = (np.mean(draws < sample.mean()) + np.mean(draws <= sample.mean())) / 2
    bias = normal.inv_cdf(below)
    left_out = (sample.sum() - sample) / (len(sample) - 1)
    pull = left_out.mean() - left_out
    acceleration = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)
    ends = []
    for share in ((1 - confidence) / 2, (1 + confidence) / 2):
        shifted = bias + normal.inv_cdf(share)
        ends.append(np.quantile(draws, normal.cdf(bias + shifted / (1 - acceleration * shifted))))
    return np.array(ends)


lines = stats[(stats.metric == COMPARED) & (stats.differing > 0)].assign(effect=stats.cliffs_delta.abs())
line = lines.sort_values(["differing", "effect"], ascending=[False, True]).iloc[0]
table = values(COMPARED).pivot(index=KEY, columns="seed", values="value").astype(float)
place = (line.workload, line.capacity)
difference = (table.loc[(*place, line.policy)] - table.loc[(*place, baseline)]).to_numpy()
there = np.array([line.mean_difference_low, line.mean_difference_high])
again = bca(difference)
away = np.abs(again - there).max() / (there[1] - there[0])
print(f"{line.workload} at {line.capacity}: {COMPARED}, {line.policy} - {baseline}, {len(difference)} seeds")
print(f"stats.csv    {line.mean_difference:.3f}, {there[0]:.3f} to {there[1]:.3f}")
print(f"numpy        {difference.mean():.3f}, {again[0]:.3f} to {again[1]:.3f}")
print(f"the ends differ by {100 * away:.1f} % of the width at most")
assert away < 0.1

# %% [markdown]
# And the effect size, Cliff's delta: how much more often a value of the policy is greater than one of the baseline than
# less, over all pairs of seeds.

# %%
mine, base = table.loc[(*place, line.policy)].to_numpy(), table.loc[(*place, baseline)].to_numpy()
delta = np.sign(mine[:, None] - base[None, :]).mean()
print(f"stats.csv {line.cliffs_delta:.6f}, numpy {delta:.6f}")
assert np.isclose(delta, line.cliffs_delta)
