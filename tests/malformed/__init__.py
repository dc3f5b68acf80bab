"""Malformed input, seeded: valid files with something wrong in them, and the judge of how they are met."""
