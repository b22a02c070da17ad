"""What is chosen where the user did not choose, in one place."""

# Units of a classifier and of a transformer.
N_HIDDEN = 1000
N_COMPONENTS = 100
# Patches of images, each of which has many outputs.
N_PATCHES = 400

# Features of which tanh networks learn the weights by themselves, at most. The many features of an
# image take long, and are better left as they are: with learned weights, MNIST in floats has 0.1
# points less of 1000 units, and 0.2 of 4096. And rows from which they do, at least.
MOST_LEARNED, FEWEST_ROWS = 500, 50

# Features of which a linear map is learned, at most: it is a square of them.
MOST_MAPPED = 500

# Where None asks for as many centres as are worth their time: this part of the rows, and no
# more than a readout solves in seconds. Of one radius that selects and shapes the units
# alike, less.
PART_OF_ROWS = 0.75
PART_OF_ROWS_OF_ONE_RADIUS = 0.25
MOST_CENTERS = 4000

# radius="auto" without held-out error. Triangles must reach from one centre to the next: the
# best ones lie this part of the way from the selection radius to the natural radius of the
# kernel at the median distance of rows (measured on four data sets over 1 % to 65 % of the
# rows as units), and those on random centres have the natural radius alone.
PART_OF_NATURAL = 0.25
PART_OF_NATURAL_AT_RANDOM = 0.85
