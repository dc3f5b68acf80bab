"""Everything that only a GPU can show, in one script: see `bench.gpu.__main__`."""
