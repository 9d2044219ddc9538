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
# # Your own snapshot
#
# Your program ran out of memory, or might. Which setting of PyTorch's allocator would have avoided it, and how small a
# card would do? Record the program in three lines of Python:
#
#     torch.cuda.memory._record_memory_history(max_entries=10_000_000)
#     run_your_program()
#     torch.cuda.memory._dump_snapshot("snapshot.pickle")
#
# then set the two variables below, or `VRAMLAB_SNAPSHOT` and `VRAMLAB_CAPACITY`, and run all cells. As committed, this
# notebook asks what an inference service, recorded under a cap of 3,000 MiB, would have done with 2 GiB.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from common import BLACK, BLUE, GIB, GREEN, GREY, ORANGE, RED, ROOT, SKY, bars, line_at, vramlab

SNAPSHOT = os.environ.get("VRAMLAB_SNAPSHOT", ROOT / "traces/service-cap.vlt.zst")
CAPACITY = os.environ.get("VRAMLAB_CAPACITY", "2GiB")

# %% [markdown]
# The figures come from the program `vramlab` (`cargo build --release` makes it). It is looked for where `VRAMLAB` points,
# then in `target/release`, then on the `PATH`.

# %%
temporary = tempfile.TemporaryDirectory()
ask = ["--policies", "pytorch-settings"]
compared = vramlab("compare", SNAPSHOT, *ask, "--capacity", CAPACITY, "--out", temporary.name)
fitted = vramlab("fit", SNAPSHOT, *ask)
if len(compared) > 1:
    print(f"the recording holds {len(compared)} devices; this notebook shows the first")
trace, data = compared[0]["trace"], pd.DataFrame(compared[0]["rows"])
folder = Path(compared[0]["out"])
bound, capacity = trace["lower_bound_bytes"], trace["capacity_bytes"]
print(f"{trace['trace']}: {trace['events']:,} events, {trace['requests']:,} requests")
print(f"bound {bound / GIB:.2f} GiB, capacity {capacity / GIB:.2f} GiB")
for note in trace["notes"]:
    print(f"import: {note['count']} x {note['what']}")

# %% [markdown]
# What each setting is, as PyTorch reads it from `PYTORCH_CUDA_ALLOC_CONF`:

# %%
settings = {name: vramlab("policy", "show", name)["parameters"].get("conf", "") for name in data.policy}
pd.DataFrame({"PYTORCH_CUDA_ALLOC_CONF": settings}).rename_axis("policy")

# %% [markdown]
# ## Which setting avoids the failure?
#
# Each setting served the recorded requests within the capacity. Blue: all were served. Orange: some were not, and the
# program would have stopped at the first of them.

# %%
fine = data.failed == 0
figure, axes = plt.subplots(figsize=(7.2, 0.3 * len(data) + 1))
bars(axes, data.policy, data.footprint_bytes / GIB, np.where(fine, BLUE, ORANGE))
line_at(axes, bound / GIB, "bound ", align="right")
line_at(axes, capacity / GIB, " capacity", GREY, "-")
for row, (size, failed) in enumerate(zip(data.footprint_bytes / GIB, data.failed)):
    note = f"{failed:,} failed" if failed else "all served"
    axes.text(0.02, row, note, color=BLACK if failed else "white", va="center")
axes.set_xlabel("footprint, GiB")
plt.show()

# %%
now = data.set_index("policy").loc["pytorch"]
if now.failed == 0:
    print(f"With the default setting nothing fails in {capacity / GIB:.2f} GiB.")
elif fine.any():
    print(f"With the default setting {now.failed:,} requests fail. None fails with:")
    for name in data.policy[fine]:
        print(f"    PYTORCH_CUDA_ALLOC_CONF={settings[name]}")
else:
    print(f"With the default setting {now.failed:,} requests fail, and every other setting fails too.")
loose = [prediction["policy"] for prediction in compared[0]["predictions"] if not prediction["exact"]]
if loose:
    print("These predictions depend on the addresses that the driver hands out:", ", ".join(loose))
else:
    print("No prediction depends on the addresses that the driver hands out.")

# %% [markdown]
# ## Why does it fail?
#
# Every failed request of the default setting, with the state at that moment. `free` was reserved and not in use; the
# request did not fit its largest piece, and the driver had no more to give. The verdicts are defined in
# `docs/metrics.md`.

# %%
failures = pd.read_csv(folder / "failures.csv")
mine = failures[failures.policy == "pytorch"].head(10)
sizes = ["bytes", "requested_bytes", "reserved_bytes", "free_bytes", "largest_free_bytes"]
shown = (mine[sizes] / 1024**2).round(1).rename(columns=lambda name: name.replace("bytes", "MiB").lstrip("_"))
shown.rename(columns={"MiB": "asked_MiB"}).assign(event=mine.event, verdict=mine.verdict).set_index("event")

# %% [markdown]
# The same over time: what the program asked for, and what the default setting and the best one held for it.

# %%
best = data.policy.iloc[0]
figure, axes = plt.subplots(figsize=(7.2, 2.9))
lines = {name: pd.read_csv(folder / name / "timeline.csv") for name in dict.fromkeys(["pytorch", best])}
for (name, line), color in zip(lines.items(), [ORANGE, BLUE]):
    axes.step(line.last_ns / 1e9, line.reserved_bytes / GIB, color=color, label=f"reserved, {name}")
line = lines[best]
axes.fill_between(line.last_ns / 1e9, line.max_requested_bytes / GIB, step="pre", color=SKY, alpha=0.4, lw=0, label="requested")
axes.axhline(capacity / GIB, color=GREY, linewidth=1)
height = np.full(len(mine), 1.03 * capacity / GIB)
axes.plot(mine.time_ns / 1e9, height, "v", color=RED, label="failed, pytorch")
axes.set(xlabel="time, s", ylabel="GiB", xlim=(0, None), ylim=(0, 1.1 * capacity / GIB))
axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=8)
plt.show()

# %% [markdown]
# ## The smallest capacity
#
# How small a card, or a cap, each setting could have lived with: the smallest capacity at which every request is served,
# found by replays, and checked a little above and below. Green: the capacity above is enough; orange: it is not. Where
# more room harms, the capacities below the answer that work by luck are counted.

# %%
fits = pd.DataFrame(fitted[0]["fits"]).sort_values("fit_bytes", na_position="last")
known = fits.dropna(subset="fit_bytes")
enough = known.fit_bytes <= capacity
figure, axes = plt.subplots(figsize=(7.2, 0.3 * len(known) + 1))
bars(axes, known.policy, known.fit_bytes / GIB, np.where(enough, GREEN, ORANGE))
line_at(axes, bound / GIB, "bound ", align="right")
line_at(axes, capacity / GIB, " asked", GREY, "-")
for row, size in enumerate(known.fit_bytes):
    note = f"{size / GIB:.2f} GiB, {size / bound:.2f} x the bound"
    axes.text(0.02, row, note, va="center", color="white" if size <= capacity else BLACK)
axes.set_xlabel("smallest capacity, GiB")
plt.show()
for name in fits.policy[fits.fit_bytes.isna()]:
    print(f"{name}: fails even on the whole card")
for fit in known[known.lucky_bytes.str.len() > 0].itertuples():
    print(f"{fit.policy}: more room can harm; {len(fit.lucky_bytes)} smaller capacities also serve everything")

# %% [markdown]
# The two plots need not agree on the best setting: the first says who reserves least when the capacity is given, the
# second who can live with least. A setting that fills the card to the brim before it gives anything back may come last
# in the first and first in the second.

# %%
temporary.cleanup()
