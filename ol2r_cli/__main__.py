"""`python -m ol2r_cli` is `ol2r`."""

import sys

from ol2r_cli.cli import main

sys.exit(main())
