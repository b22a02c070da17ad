"""What is chosen where the user did not choose, in one place."""

# Units of a classifier and of a transformer.
N_HIDDEN = 1000
N_COMPONENTS = 100

# Where None asks for as many centres as there are novel rows, at a radius of "auto": this
# part of the rows, where MNIST, letter, optdigits and iris peak, and no more than a readout
# solves in seconds.
PART_OF_ROWS = 0.25
MOST_CENTERS = 4000

# radius="auto". The best units lie between the selection radius and the natural radius of
# the kernel at the median distance of rows (measured on the same data sets over 1 % to 65 %
# of the rows as units): this part of the way for a ridge readout. Random centres have the
# natural radius alone.
PART_OF_NATURAL = 0.25
PART_OF_NATURAL_AT_RANDOM = 0.85
