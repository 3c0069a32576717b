"""`python -m servecast`."""

from servecast.cli import main

main()
