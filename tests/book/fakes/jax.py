"""Stands for JAX: the arrays that live, and a function that was compiled ahead of time.

An array is a list with its number of bytes, so that Python's own counting frees it.
"""

import gc
import itertools
import types
import weakref

_addresses = itertools.count(1 << 40, 1 << 30)
_live = weakref.WeakSet()


class _Array:
    def __init__(self, nbytes):
        self.nbytes, self.at = nbytes, next(_addresses)
        self.addressable_shards = [types.SimpleNamespace(data=weakref.proxy(self))]
        _live.add(self)

    def unsafe_buffer_pointer(self):
        return self.at


def live_arrays():
    gc.collect()
    return list(_live)


def block_until_ready(outputs):
    return outputs


class _Compiled:
    def memory_analysis(self):
        return types.SimpleNamespace(temp_size_in_bytes=1 << 18)

    def __call__(self, state, batch):
        return _Array(1 << 20)


def jit(function):
    return types.SimpleNamespace(
        lower=lambda *_: types.SimpleNamespace(compile=_Compiled), function=function
    )
