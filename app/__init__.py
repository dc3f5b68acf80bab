"""What people touch: the command line, the report, the plots, the player and the visualizer."""

import logging

# Before anybody imports matplotlib, which warns of a home where it cannot keep its fonts:
logging.getLogger("matplotlib").setLevel(logging.ERROR)
