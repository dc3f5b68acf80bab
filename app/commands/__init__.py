"""One file for each command of `pagelab`."""
