"""Whether the data of a protocol are there, before anything is run."""

from __future__ import annotations

from ol2r_cli.compose import build, compose
from ol2r_cli.reproduce.protocol import Ground, Protocol
from ol2r_cli.reproduce.words import words


def dataset(protocol: Protocol, ground: Ground) -> object:
    """What reads the data of a ground; ValueError where they are not found, in one line that says how to go on."""
    asked = [word for name, word in protocol.shared(ground).items() if _says_which(name) and name != "dataset.fold"]
    source: object = build(compose(asked).dataset)
    if hasattr(source, "locate"):
        try:
            source.locate()
        except ValueError as error:
            found, _, _ = str(error).partition(", or use dataset=")
            # a path would be that of every dataset of the recipe
            found = found.replace("then type dataset.path=FOLDER", "then type data_dir=FOLDER, in which it lies")
            recipe = protocol.recipe.name
            raise ValueError(
                f"{recipe} at scale={protocol.scale} needs {ground.title}: {found}, or go on with the same protocol on "
                f"data at hand, labelled as such: ol2r reproduce {recipe} --scale {protocol.scale} dataset=mq2008 "
                "dataset.path=FOLDER, or dataset=synthetic, or --scale quick"
            ) from None
    return source


def require(protocol: Protocol) -> None:
    """Raises ValueError unless all data are there."""
    for ground in protocol.grounds:
        dataset(protocol, ground)


def _says_which(name: str) -> bool:
    return bool(words([name]).keys() & {"dataset", "data_dir", "cache_dir"}) or name.startswith("dataset.")
