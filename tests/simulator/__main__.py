"""python -m simulator"""

import sys

from .cli import main

sys.exit(main())
