"""Repeatable measurements. Each script prints a table and writes its raw results to `bench/results/`."""
