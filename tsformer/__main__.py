"""``python -m tsformer`` is the command ``tsformer``."""

from tsformer.cli import main

if __name__ == "__main__":
    main()
