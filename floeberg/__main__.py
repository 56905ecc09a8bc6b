"""``python -m floeberg``."""

from floeberg.cli import main

if __name__ == "__main__":
    main()
