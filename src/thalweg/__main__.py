"""``python -m thalweg``, the same as ``thalweg``."""

from thalweg.cli import main

if __name__ == "__main__":
    main()
