"""Memory: how much is free, how much is held, and the errors when there is too little."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from backend.errors import UserError
from backend.switch import module


def pool_figures(xp: Any) -> dict[str, int]:
    """`pool_used_bytes` and `pool_total_bytes` of CuPy's memory pool; nothing for other modules.

    Used is what arrays hold now, total what the pool has taken from the GPU. The pool never
    releases memory by itself, so total is the peak demand, fragmentation included.
    """
    pool_of = getattr(xp, "get_default_memory_pool", None)
    if pool_of is None:
        return {}
    pool = pool_of()
    return {"pool_used_bytes": pool.used_bytes(), "pool_total_bytes": pool.total_bytes()}


def check_fits(needed: int, what: str, advice: str) -> None:
    """Raise UserError, before anything is allocated, if there is too little memory.

    Arguments: needed, in bytes; what needs them, and advice, for the message. Where the system does
    not report what is free, nothing is checked.
    """
    free = available_bytes()
    if free is not None and needed > free:
        raise UserError(f"{what}: at least {_readable(needed)} of memory needed, {_readable(free)} "
                        f"free; {advice}")


def available_bytes() -> int | None:
    """Bytes that can still be allocated on the device in use: of the GPU; or on the host the least
    of the machine's free memory and the limits of the control group and of this process. None
    if unknown."""
    xp = module()
    if (runtime := getattr(getattr(xp, "cuda", None), "runtime", None)) is not None:
        return int(runtime.memGetInfo()[0] + xp.get_default_memory_pool().free_bytes())
    group = "/sys/fs/cgroup/memory."
    limits = [_number("/proc/meminfo", r"MemAvailable: +(\d+)", 1024),
              _left(_number(f"{group}max", r"(\d+)"), _number(f"{group}current", r"(\d+)"))]
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            limits.append(_left(limit, _number("/proc/self/status", r"VmSize:\s+(\d+)", 1024)))
    return min((limit for limit in limits if limit is not None), default=None)


def _left(limit: int | None, used: int | None) -> int | None:
    """What is left of a limit, if both are known."""
    return None if limit is None or used is None else max(limit - used, 0)


def _number(path: str, pattern: str, unit: int = 1) -> int | None:
    """A number read from a system file, times `unit`; None if it is not there."""
    try:
        match = re.search(pattern, Path(path).read_text())
    except OSError:
        return None
    return int(match[1]) * unit if match else None


def _readable(count: int) -> str:
    """A number of bytes with its unit, as in 1.5 GB."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def too_large(error: MemoryError, what: str, advice: str) -> UserError:
    """The error to raise when there was no memory for `what`: bytes asked for, bytes free, advice.

    Free memory of a GPU includes the unused part of CuPy's pool.
    """
    match = re.search(r"allocat\w* ([\d,.]+ ?\w*)", str(error))
    asked = f"{match[1].strip()} asked for" if match else "memory asked for"
    return UserError(f"{what}: too large for the memory: {asked}{_free()}; {advice}")


def _free() -> str:
    """", N bytes free of M" on a GPU that reports it; an empty string elsewhere."""
    xp = module()
    runtime = getattr(getattr(xp, "cuda", None), "runtime", None)
    if runtime is None:
        return ""
    free, total = runtime.memGetInfo()
    free += xp.get_default_memory_pool().free_bytes()
    return f", {free:,} bytes free of {total:,}"
