"""`python -m app` is `pagelab`."""

from app.cli import main

main()
