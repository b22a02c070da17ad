"""What to type where an optional package is missing."""

import re
from importlib.metadata import PackageNotFoundError, requires


def install(extra):
    """The command that brings the packages of an extra of pyproject.toml.

    It names these packages themselves, so that it works wherever this package came from: a
    clone, a wheel or an index.

    Parameters
    ----------
    extra : str

    Returns
    -------
    str

    Examples
    --------
    >>> from sklearn_fsvc._src.extras import install
    >>> print(install("skops"))
    pip install '...skops...'
    """
    try:
        needed = requires("sklearn-fsvc") or ()
    except PackageNotFoundError:  # imported from a folder: that is where pip finds the extra
        needed = ()
    of_extra = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    packages = [each.partition(";")[0].strip() for each in needed if of_extra.search(each)]
    return " ".join(["pip install", *(f"'{name}'" for name in packages or [f".[{extra}]"])])
