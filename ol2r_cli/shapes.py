"""Shape annotations: `Float[Tensor, "B D"]` reads as a tensor of that shape and is checked while testing.

Legend, everywhere in this project: B replicas, N members, D documents (padded), K positions, O places of a proposed
order, F features, P parameters, M preferences of one round, Q queries, S parameter settings scored together, T rounds.

jaxtyping provides the annotations where it is installed (it comes with the `dev` extra); elsewhere they mean nothing.
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
            """Stands in for jaxtyping: `Float[Tensor, "B D"]` is simply `Tensor`."""

            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = Shaped = _Unchecked

__all__ = ["Bool", "Float", "Int", "Shaped"]
