"""The estimators: what they have in common, and one module for the classes of each hidden layer.

A public class, such as `RBFClassifier`, consists of hyperparameters, a docstring, and a method
`_parts`, which returns its parts: hidden units, target specification and readout.

- Public classes: `rbf`, `tanh` and `patches`; their docstrings share entries of `shared_docs`.
- Their methods: `classifier` and `regressor`, with `prediction`, `explanation` and
  `validation_set`; `transformer`.
- `network` is the base class, which fits the parts and predicts with them. In `layer_choice`, a
  subclass fits batch by batch, and in `partial_fit` one of that, the base of classifiers and
  regressors; their states are a `buffer` and `incremental` sums.
- Readouts: `readouts`, subclasses of `linear_readout`, with `automatic_precision`.
- Of all estimators: `state` (versions, locks) and `fit_report` (`verbose`).
"""
