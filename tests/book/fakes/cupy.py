"""Stands for CuPy: the hooks of a pool, with the keyword arguments of CuPy 14."""

import types

_hooks = []


class MemoryHook:
    def __enter__(self):
        _hooks.append(self)
        return self

    def __exit__(self, *_):
        _hooks.remove(self)


cuda = types.SimpleNamespace(
    MemoryHook=MemoryHook, get_current_stream=lambda: types.SimpleNamespace(ptr=0)
)


def _malloc(size, mem_ptr, pmem_id):
    mem_size = -(-size // 512) * 512
    for hook in _hooks:
        hook.malloc_postprocess(
            device_id=0, size=size, mem_size=mem_size, mem_ptr=mem_ptr, pmem_id=pmem_id
        )


def _free(size, mem_ptr, pmem_id):
    mem_size = -(-size // 512) * 512
    for hook in _hooks:
        hook.free_postprocess(device_id=0, mem_size=mem_size, mem_ptr=mem_ptr, pmem_id=pmem_id)


def exercise():
    sizes = [1000, 4 << 20, 24]
    for at, size in enumerate(sizes):
        _malloc(size, (1 << 40) + (at << 30), 140_000_000_000 + at)
    # An empty array has no memory, and is freed without a word.
    _malloc(0, 0, 150_000_000_000)
    # A request that the pool refuses has neither an address nor an object.
    _malloc(1 << 40, 0, 0)
    for at, size in enumerate(sizes):
        _free(size, (1 << 40) + (at << 30), 140_000_000_000 + at)
