"""`python -m threadseal`: the command."""

from .command import main

main()
