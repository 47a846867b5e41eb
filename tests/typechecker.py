"""What checks the annotations of the package while testing: beartype, with ints welcome where floats are."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
