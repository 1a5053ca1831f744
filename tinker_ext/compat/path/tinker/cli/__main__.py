"""Run the command line of tinker-ext as `python -m tinker.cli`."""

from tinker_ext.compat.command import main

cli = main

if __name__ == "__main__":
    main()
