"""Run the command line as `python -m tiburon`."""

from tiburon.cli import main

if __name__ == "__main__":
    main()
