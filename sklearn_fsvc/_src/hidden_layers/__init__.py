"""The choice of a hidden layer for samples.

- Units as parts of estimators: `rbf`, `tanh` and `patches`; `parameters` reads a given layer and
  given feature weights.
- Centres of RBF units: `centers`, by the rule of `novelty`, applied to `ordered_samples` and
  `active_candidates`, at a `radius`.
- Weights of tanh units: `random_weights`, `class_directions` and `linear_units`, of a `scale`.
- Weights of features: `feature_weights`, `relevance`, and the `linear_map`.
- Hyperparameters that are "auto": `model_selection`, by a `proxy_search` on each of several splits,
  whose candidates are evaluated by `proxy_networks`.
"""
