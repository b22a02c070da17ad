"""From the outputs of a layer to answers: statistics, ridge, PRESS, LMS, probabilities."""
