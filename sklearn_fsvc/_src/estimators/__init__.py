"""What the estimators are put together from.

A face, such as `RBFClassifier`, is its parameters, its docstring, and one method that names its
parts, `_parts`::

    parts        the contracts: units, targets, readout
      rbf, tanh, patches    units: where the hidden layer comes from
      classes, numbers      targets: what y becomes, what scores become, the score
      readouts              from H to scores: ridge, LMS, none that is trained
    network      how parts are fitted, and how they predict: each once
      prediction   tiles of H to scores, and scores to the output of a method
      online       rows that come and go: partial_fit, forget, merge
    stacking     stacked ensembles of networks: how they are fitted, how they predict
      members           which networks, and how each is fitted and validated
      ensemble_weights  the weights of networks, by their leave-one-out scores
    classifier, regressor, transformer
                 the public methods, and what they promise
      explaining   which training rows decided a prediction
      lazy         arrays of Dask
    locking      atomic updates and snapshots of a model in several threads
    state        which version saved a model
    layer_parameter  a layer, or weights, that are given
    targets, labels, heavy_tails
                 y as numbers for a readout, and back
"""
