"""`python -m regard` is `regard`."""

import sys

from regard.verbs.main import main

if __name__ == "__main__":
    sys.exit(main())
