"""`python apps/paper`: the tables and figures of the paper, one command each."""
# ruff: noqa: INP001 - a folder that Python runs is no package

from reproduction.commands import main

if __name__ == "__main__":
    main()
