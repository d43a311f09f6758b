"""``python -m penstock.cli``: how the platform starts our own processes, whatever is on PATH."""

from penstock.cli import main

if __name__ == "__main__":
    main()
