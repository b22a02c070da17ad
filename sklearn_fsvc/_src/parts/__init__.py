"""The contracts of the parts of an estimator: hidden units, target specification and readout."""
