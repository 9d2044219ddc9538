"""Stands for PyTorch: a snapshot that a real one wrote lies there as `recorded.pickle`."""

import shutil
import types

_recording = False


def _record_memory_history(enabled="all", *, max_entries=0):
    global _recording
    _recording = enabled is not None and max_entries > 0


def _dump_snapshot(filename):
    if not _recording:
        raise RuntimeError("nothing was recorded")
    shutil.copyfile("recorded.pickle", filename)


def exercise():
    if not _recording:
        raise RuntimeError("the recording begins too late")


cuda = types.SimpleNamespace(
    memory=types.SimpleNamespace(
        _record_memory_history=_record_memory_history, _dump_snapshot=_dump_snapshot
    )
)
