"""A GPU's memory: what is held, and what to say when it does not suffice."""

from __future__ import annotations

import re
from typing import Any

from backend.errors import UserError
from backend.switch import module


def pool_figures(xp: Any) -> dict[str, int]:
    """`pool_used_bytes` and `pool_total_bytes` of CuPy's memory pool; nothing for other modules.

    Used is what arrays hold now, total what the pool has taken from the GPU: as it gives nothing
    back by itself, total is the most that was ever needed at once, fragments included.
    """
    pool_of = getattr(xp, "get_default_memory_pool", None)
    if pool_of is None:
        return {}
    pool = pool_of()
    return {"pool_used_bytes": pool.used_bytes(), "pool_total_bytes": pool.total_bytes()}


def too_large(error: MemoryError, what: str, advice: str) -> UserError:
    """The error to raise when there was no memory for `what`: asked for, free, what to change.

    Free is what the GPU has left, with what its pool holds unused.
    """
    found = re.search(r"allocat\w* ([\d,.]+ ?\w*)", str(error))
    asked = f"{found[1].strip()} asked for" if found else "memory asked for"
    return UserError(f"{what}: too large for the memory: {asked}{_free()}; {advice}")


def _free() -> str:
    """", N bytes free of M" on a GPU that can be asked; an empty string elsewhere."""
    xp = module()
    runtime = getattr(getattr(xp, "cuda", None), "runtime", None)
    if runtime is None:
        return ""
    free, total = runtime.memGetInfo()
    free += xp.get_default_memory_pool().free_bytes()
    return f", {free:,} bytes free of {total:,}"
