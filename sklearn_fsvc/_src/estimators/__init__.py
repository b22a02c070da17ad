"""The estimators: what they have in common, and one module for the classes of each hidden layer.

A public class, such as `RBFClassifier`, consists of hyperparameters, a docstring, and a method
`_parts`, which returns its parts: hidden units, target specification and readout. `network` fits
the parts of an estimator, and predicts with them.
"""
