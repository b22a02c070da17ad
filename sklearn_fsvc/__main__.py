"""Run ``python -m sklearn_fsvc``."""

from ._src.cli import main

if __name__ == "__main__":
    main()
