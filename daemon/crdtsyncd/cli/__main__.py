"""``python -m crdtsyncd.cli``, for where the script is not on the path."""

from crdtsyncd.cli.main import main

main()
