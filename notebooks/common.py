"""What the notebooks share: where the repository lies, the program, units, and the look of the plots."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import Markdown

ROOT = Path(__file__).resolve().parents[1]
GIB = 1024**3

# Okabe and Ito's colours, as in the plots of vramlab itself.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, GREY = "#0072B2", "#D55E00", "#9A9A9A"

plt.rcParams.update(
    {
        "figure.dpi": 110,
        "savefig.dpi": 110,
        "figure.constrained_layout.use": True,
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": "#E6E6E6",
        "legend.frameon": False,
        "svg.hashsalt": "vramlab",
    }
)
pd.set_option("display.max_rows", 100, "display.max_columns", 20)
pd.set_option("display.max_colwidth", None, "display.precision", 3)


def vramlab(*arguments):
    """Runs `vramlab ... --json` and returns what it answers."""
    built = ROOT / "target/release/vramlab"
    program = os.environ.get("VRAMLAB") or (built if built.exists() else shutil.which("vramlab"))
    if program is None:
        raise SystemExit("vramlab is not there: run `cargo build --release`, or set VRAMLAB to the program")
    run = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout)


def bars(axes, names, values, colors):
    """Draws one horizontal bar a name, the first on top."""
    axes.barh(range(len(names)), values, color=colors, height=0.7)
    rows(axes, names)


def rows(axes, names):
    """Gives `axes` one row a name, the first on top, without lines between them."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def line_at(axes, x, text, color=BLACK, style="--", align="left"):
    """A vertical line at `x` with its name above the plot."""
    axes.axvline(x, color=color, linestyle=style, linewidth=1.2)
    axes.text(x, 1.01, text, color=color, ha=align, va="bottom", transform=axes.get_xaxis_transform())


def defined(document, names):
    """The lines of the tables in a file of docs/ that define `names`: column, unit, formula."""
    lines = (ROOT / "docs" / document).read_text().splitlines()
    found = [next(line for line in lines if line.startswith(f"| `{name}` |")) for name in names]
    kept = [" | ".join(line.strip("| ").split(" | ")[:3]) for line in found]
    return Markdown("\n".join(f"| {line} |" for line in ["column | unit | formula", "--- | --- | ---", *kept]))
