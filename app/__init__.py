"""What people touch: the command line, the report, the plots, the player and the visualizer."""
