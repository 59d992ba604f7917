"""Memory: how much is free, how much is held, and the errors if there is too little."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from backend.errors import UserError
from backend.switch import module


def pool_figures(xp: Any) -> dict[str, int]:
    """`pool_used_bytes` and `pool_total_bytes` of CuPy's memory pool; nothing for other modules.

    "Used" is the memory that arrays hold now, "total" the memory that the pool has taken from the
    GPU. The pool never releases memory by itself, so total is the peak demand, including
    fragmentation.
    """
    pool_of = getattr(xp, "get_default_memory_pool", None)
    if pool_of is None:
        return {}
    pool = pool_of()
    return {"pool_used_bytes": pool.used_bytes(), "pool_total_bytes": pool.total_bytes()}


def check_fits(needed: int, purpose: str, advice: str) -> None:
    """Raise UserError, before anything is allocated, if there is too little memory.

    Arguments: needed, in bytes; purpose, the work that needs them, and advice, for the message. If
    the system does not report the free memory, nothing is checked.
    """
    free = available_bytes()
    if free is not None and needed > free:
        raise UserError(f"{purpose}: at least {_readable(needed)} of memory needed, "
                        f"{_readable(free)} free; {advice}")


def available_bytes() -> int | None:
    """The bytes that can still be allocated on the device in use; None if unknown.

    On the host it is the least of the machine's free memory and the limits of the control group
    and of this process."""
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
    """The unused part of a limit, if the limit and the use are known."""
    return None if limit is None or used is None else max(limit - used, 0)


def _number(path: str, pattern: str, unit: int = 1) -> int | None:
    """A number read from a system file, times `unit`; None if the file has no such number."""
    try:
        match = re.search(pattern, Path(path).read_text())
    except OSError:
        return None
    return int(match[1]) * unit if match else None


def _readable(count: int) -> str:
    """A number of bytes with its unit, as in 1.5 GB."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def too_large(error: MemoryError, purpose: str, advice: str) -> UserError:
    """The error for work without enough memory: purpose, bytes requested, memory free, advice."""
    match = re.search(r"allocat\w* ([\d,.]+ ?\w*)", str(error))
    asked = f"{match[1].strip()} asked for" if match else "memory asked for"
    free = available_bytes()
    known = "" if free is None else f", {_readable(free)} free"
    return UserError(f"{purpose}: too large for the memory: {asked}{known}; {advice}")
