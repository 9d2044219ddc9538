"""Stands for RMM: its log, a file for each device, as RMM 26.10 writes it."""

import pathlib

_log = None


def reinitialize(*, pool_allocator=False, logging=False, log_file_name=None):
    global _log
    if not (pool_allocator and logging):
        raise RuntimeError("a pool with a log is what the book shows")
    path = pathlib.Path(log_file_name)
    _log = open(path.with_suffix(f".dev0{path.suffix}"), "w")
    print("Thread,Time,Action,Pointer,Size,Stream", file=_log)


def disable_logging():
    _log.close()


def exercise():
    for at in range(4):
        print(f"859,09:42:46.67833{at},allocate,0x7f095{at}000000,{4096 << at},0", file=_log)
    for at in range(4):
        print(f"859,09:42:46.67834{at},free,0x7f095{at}000000,{4096 << at},0", file=_log)
