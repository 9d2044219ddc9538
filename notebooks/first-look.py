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
# # A first look
#
# One recorded trace, many allocation policies, one row of figures each. The rows are those that this command writes,
# and they are committed in `results/gpt2-varlen`:
#
#     cargo run --release -- compare traces/gpt2-varlen.vlt.zst --out results/gpt2-varlen
#
# The trace holds 24 training steps of a GPT-2 with sequences of varying length. Every policy served the same requests,
# in the same order, with the same capacity, on a simulated card.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from common import BLACK, BLUE, GIB, GREY, ORANGE, RED, ROOT, SKY, bars, defined, line_at, rows

data = pd.read_csv(ROOT / "results/gpt2-varlen/rows.csv")
first = data.iloc[0]
bound, capacity = first.lower_bound_bytes, first.capacity_bytes
print(f"{len(data)} policies, {first.events:,} events, {first.requests:,} requests")
print(f"bound     {bound / GIB:6.2f} GiB: the peak of what was asked for and not yet freed; no policy can do with less")
print(f"capacity  {capacity / GIB:6.2f} GiB: {capacity / bound:.2f} x the bound")

# %% [markdown]
# The rows come best first: fewest failed requests, then the smallest footprint. A selection of the columns, with bytes
# as GiB and parts per million as per cent:

# %%
table = pd.DataFrame(
    {
        "failed": data.failed,
        "success %": data.success_ppm / 1e4,
        "footprint GiB": data.footprint_bytes / GIB,
        "x bound": data.footprint_bytes / bound,
        "external frag. mean %": data.mean_external_fragmentation_ppm / 1e4,
        "internal frag. peak %": data.peak_internal_fragmentation_ppm / 1e4,
        "driver calls": data.driver_calls,
        "cost ms": data.cost_ns / 1e6,
    }
).set_index(data.policy)
table.round(2)

# %% [markdown]
# ## What the columns mean
#
# Each column is defined once, in `docs/metrics.md`. These are the lines for the columns above:

# %%
used = ["failed", "success_ppm", "peak_reserved_bytes", "high_water_bytes", "footprint_bytes", "lower_bound_bytes"]
used += ["mean_external_fragmentation_ppm", "peak_internal_fragmentation_ppm", "driver_calls", "cost_ns"]
defined("metrics.md", used)

# %% [markdown]
# ## Footprint
#
# How much memory each policy held at its peak. A policy that maps its whole pool at the start is charged only up to the
# highest address that it handed out. Orange: some request failed, so the footprint is that of a program that would have
# stopped; compare only the blue ones.

# %%
fine = data.failed == 0
figure, axes = plt.subplots(figsize=(7.2, 0.24 * len(data) + 1))
bars(axes, data.policy, data.footprint_bytes / GIB, np.where(fine, BLUE, ORANGE))
line_at(axes, bound / GIB, "bound ", align="right")
line_at(axes, capacity / GIB, " capacity", GREY, "-")
for row, (size, failed) in enumerate(zip(data.footprint_bytes / GIB, data.failed)):
    note = f"{failed:,} failed" if failed else f"{size * GIB / bound:.3f} x the bound"
    axes.text(0.1, row, note, color=BLACK if failed else "white", va="center", fontsize=8)
axes.set_xlabel("footprint, GiB")
plt.show()

# %%
best = data[fine].iloc[0]
worst = data[fine].iloc[-1]
print(f"{fine.sum()} of {len(data)} policies serve every request.")
print(f"The least footprint among them is {best.policy}'s, {best.footprint_bytes / bound:.3f} x the bound;")
print(f"the greatest is {worst.policy}'s, {worst.footprint_bytes / bound:.3f} x.")

# %% [markdown]
# ## Fragmentation
#
# Two kinds. *External*: what is free lies in pieces; 1 - largest free / free. *Internal*: blocks are larger than what
# was asked for; 1 - requested / occupied. The line goes from the mean of external fragmentation over all events to its
# peak. The peak says little by itself: when hardly anything is free, two small holes are enough for 50 %.

# %%
mean, peak = (data[f"{kind}_external_fragmentation_ppm"] / 1e4 for kind in ("mean", "peak"))
y = np.arange(len(data))
figure, axes = plt.subplots(figsize=(7.2, 0.24 * len(data) + 1))
axes.hlines(y, mean, peak, color=GREY, linewidth=1)
axes.plot(mean, y, "o", color=BLUE, label="external, mean")
axes.plot(peak, y, "o", color=SKY, label="external, peak")
axes.plot(data.peak_internal_fragmentation_ppm / 1e4, y, "D", color=RED, markersize=4, label="internal, peak")
rows(axes, data.policy)
axes.set_xlim(-2, 102)
axes.set_xlabel("fragmentation, %")
axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
plt.show()

# %% [markdown]
# A policy without a blue dot has no external fragmentation: nothing is ever free in what it has reserved (`cuda-malloc`
# gives every block back to the driver). Its price stands in the last columns of the table: driver calls.
#
# ## Failures
#
# The number of requests that were not served, on a logarithmic scale, and the event of the first one. After a failure
# the replay goes on without that allocation, so large numbers are a measure, not a prediction: a real program stops at
# the first.

# %%
failing = data[~fine]
figure, axes = plt.subplots(figsize=(7.2, 0.28 * len(failing) + 0.9))
axes.plot(failing.failed, np.arange(len(failing)), "o", color=ORANGE)
rows(axes, failing.policy)
axes.set_xscale("log")
axes.set_xlim(0.8, 2 * first.requests)
for row, (count, event) in enumerate(zip(failing.failed, failing.first_failure_event)):
    left = count > first.requests / 50
    note = f"   {count:,}, first at event {int(event):,}   "
    axes.text(count, row, note, ha="right" if left else "left", va="center", fontsize=8)
axes.set_xlabel(f"failed requests of {first.requests:,}")
plt.show()

# %% [markdown]
# ## Does fragmentation predict failure?
#
# Fragmentation is what most tools show. Whether a policy with more of it fails more is a question for the rows:

# %%
known = data.dropna(subset="mean_external_fragmentation_ppm")
ranks = known[["mean_external_fragmentation_ppm", "failed"]].rank()
agreement = ranks.corr().iloc[0, 1]
print(f"rank correlation of mean external fragmentation and failed requests: {agreement:.2f}, {len(known)} policies")
print("one trace and one capacity: no more than a hint; the notebook comparing-policies looks at many seeds")
