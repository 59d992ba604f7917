"""Neural machine translation: corpora, models, training, search, evaluation, the command line.

    import nmt

    model = nmt.load("runs/demo")
    model.translate("12 weeks ago or Monday")

The names below are the stable interface (`nmt.api`). They are imported when first used, so that a
package such as `nmt.data` can be imported alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.api import Attention, Candidate, LoadedTranslator, load, train

__all__ = ["Attention", "Candidate", "LoadedTranslator", "load", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nmt import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
