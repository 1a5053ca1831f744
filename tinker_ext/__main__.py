"""`python -m tinker_ext` is the same program as `tinker-ext`."""

from tinker_ext.cli import main

if __name__ == "__main__":
    main()
