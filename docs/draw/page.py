"""How large pictures are: as wide as a page of the site, with letters that can be read there."""

import matplotlib

matplotlib.use("agg")
matplotlib.rcParams["font.size"] = 9
WIDTH, DPI = 8.0, 130  # inches, dots an inch
