"""Shape annotations: `Float[Tensor, "B D"]` is a tensor of that shape. Tests check the shapes at every call.

Letters: B replicas, N members of a ranker, D documents of a query (padded), K positions shown, O places of a proposed
order, F features, P parameters, M preferences of one round, Q queries, S snapshots scored together, T rounds,
G groups of documents. N is also the number of documents in the document table, where the only axis is documents.
Lower-case letters are local to a file.

jaxtyping provides the annotations if it is installed (the `dev` extra). Otherwise they have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
    from typing import Annotated as Shaped
else:
    try:
        from jaxtyping import Bool, Float, Int, Shaped
    except ImportError:

        class _Unchecked:
            """Replaces jaxtyping: `Float[Tensor, "B D"]` is `Tensor`."""

            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = Shaped = _Unchecked

__all__ = ["Bool", "Float", "Int", "Shaped"]
