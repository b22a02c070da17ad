"""The estimators: what they have in common, and one module for the classes of each hidden layer.

A public class, such as `RBFClassifier`, consists of hyperparameters, a docstring, and a method
`_parts`, which returns its parts: hidden units, target specification and readout.

In this folder::

    network          fits the parts of an estimator, and predicts with them
    incremental      partial_fit, forget, merge and solve
    classifier, regressor, transformer
                     the public methods
    explanation      explain of RBF networks
    state            saved versions, copies, and updates that other threads see as a whole
    readouts         parameters of the readouts: ridge, softmax, LMS, untrained
    rbf, tanh, patches
                     the public classes

In the package, where a module imports only from its own folder and from those below it::

    search           search over hyperparameters with shared passes over the data
    stacking         stacked ensembles of networks
    estimators       single networks
    hidden_layers    hidden units: the choice of centres, weights, kernel and width
    targets          encoding of y, decoding of scores
    parts            the contracts of the three parts
    readouts         solvers of the output layer, leave-one-out errors, calibration
    data             sources, validation, streaming of tiles, Dask
    engines          evaluation of layers and linear algebra on CPUs and GPUs
"""
