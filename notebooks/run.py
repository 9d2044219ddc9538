"""Runs the notebooks and holds them against what is committed.

    python notebooks/run.py            fails where a pair disagrees, a cell fails, or its words come out differently
    python notebooks/run.py --update   takes the text from the .py files and writes the outputs anew

Pictures are not compared: fonts and compression differ between machines.
"""

import base64
import difflib
import io
import os
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).resolve().parent
NAMES = ["first-look", "comparing-policies", "your-own-snapshot"]


def smaller(picture):
    """A PNG, in base64, with 128 colours: half the bytes, and no difference that an eye sees."""
    small = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    image.quantize(128, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def executed(script):
    """The notebook of `script`, run from its folder, with nothing in it that changes from run to run."""
    notebook = jupytext.read(script)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(HERE)}}).execute()
    notebook.metadata = {
        "jupytext": {"formats": "ipynb,py:percent"},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02}"
        cell.metadata = {}
        for output in cell.get("outputs", []):
            output.get("metadata", {}).clear()
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = smaller(output.data["image/png"])
    return notebook


def lines(notebook):
    """What a reader sees of a notebook but for pictures: cells and the words that they print."""
    seen = []
    for cell in notebook.cells:
        seen += [f"-- {cell.cell_type}", *cell.source.splitlines()]
        for output in cell.get("outputs", []):
            shown = {"text/plain": output.get("text", ""), **output.get("data", {})}
            if "image/png" not in shown:
                seen += ["-- output", *shown["text/plain"].splitlines(), *shown.get("text/markdown", "").splitlines()]
    return seen


def main():
    # The committed outputs are those of the defaults.
    for name in ("VRAMLAB_RESULTS", "VRAMLAB_SNAPSHOT", "VRAMLAB_CAPACITY"):
        os.environ.pop(name, None)
    stale = False
    for name in NAMES:
        path = HERE / f"{name}.ipynb"
        notebook = executed(HERE / f"{name}.py")
        if "--update" in sys.argv:
            nbformat.write(notebook, path)
            continue
        committed = lines(nbformat.read(path, as_version=4))
        difference = list(difflib.unified_diff(committed, lines(notebook), "committed", "run now", lineterm=""))
        print(f"{name}: {'differs' if difference else 'as committed'}")
        if difference:
            stale = True
            print("\n".join(difference[:60]))
    if stale:
        sys.exit("look at the differences; if they are meant: python notebooks/run.py --update")


if __name__ == "__main__":
    main()
