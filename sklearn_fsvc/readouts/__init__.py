"""From the outputs of a layer to answers: statistics, ridge, leave-one-out, LMS, probabilities."""
