"""`python apps/benchmarks`: what encryption, the protocol, large federations and engines cost."""
# ruff: noqa: INP001 - a folder that Python runs is no package

if __name__ == "__main__":
    # Not above: the fresh processes in which memory is measured import this file.
    from bench.commands import main

    main()
