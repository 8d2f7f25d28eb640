"""`python apps/benchmarks`: what encryption, the protocol, the engines and training cost."""
# ruff: noqa: INP001 - a folder that Python runs is no package

from bench.commands import main

if __name__ == "__main__":
    main()
