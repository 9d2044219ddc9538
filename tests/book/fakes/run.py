"""Runs a script of the book where neither a card nor its libraries are.

The modules beside this file stand for the libraries. They have just the calls that the
recorders of the book make, with the same names and the same keyword arguments, so that a
recorder runs from its first line to its last and writes a real file.
"""

import builtins
import runpy
import sys


def run_your_program():
    """Allocates and frees a little through whichever library the script has imported."""
    for name in ("torch", "rmm", "cupy"):
        if name in sys.modules:
            sys.modules[name].exercise()


builtins.run_your_program = run_your_program
# What the page on JAX takes as given.
builtins.your_step = lambda state, batch: [state, batch]
builtins.state, builtins.batch = [1 << 20], [1 << 16]

runpy.run_path(sys.argv[1], run_name="__main__")
