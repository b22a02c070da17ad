"""python -m sklearn_fsvc export: from a file of skops to a file for another program."""

import re
from importlib.util import find_spec
from pathlib import Path

from ..extras import install
from .c import header_of
from .skops import TRUSTED


def export(model, header, name=None):
    """Write the model in a file of skops as a C header, and say how large it is.

    Names in the header begin with `name`, by default that of its file. It raises RuntimeError where
    skops is not installed, and ValueError for what cannot be read or written.
    """
    header = Path(header)
    name = name or re.sub(r"\W", "_", header.stem, flags=re.ASCII)
    try:
        written = header_of(_load(model), name)
        header.write_text(written.text)
    except (TypeError, OSError) as error:  # these, too, are for the user
        raise ValueError(error) from error
    print(f"{header}: {written.n_bytes:,} bytes of constants; call {name}_predict")


def _load(path):
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}.")
    if find_spec("skops") is None:
        raise RuntimeError(f"the model is read by skops; {install('skops')}")
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops.io.load(path, trusted=TRUSTED)
    except UntrustedTypesFoundException as error:
        raise ValueError(
            f"{path} holds what is not of this package: {error} Load it in Python, with what you "
            "trust, and call sklearn_fsvc.export.c.to_c."
        ) from error
    except Exception as error:  # it reads zip files, of JSON
        raise ValueError(
            f"{path} is no file of skops ({error}); save the model by skops.io.dump(model, path)."
        ) from error
