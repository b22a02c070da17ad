"""What the estimators are put together from.

A face, such as `RBFClassifier`, is its parameters, its docstring, and one method that names its
parts, `_parts`::

    parts        the contracts: units, task, readout
      rbf, tanh, patches    units: where the hidden layer comes from
      classes, numbers      the task: what y becomes, what scores become, the score
      readouts              from H to scores: ridge, LMS, none that is trained
    network      how parts are fitted, and how they answer: each once
      answering    tiles of H to scores, and scores to what a method says
      online       rows that come and go: partial_fit, forget, merge
    stacking     stacked ensembles of networks: how they are fitted, how they predict
      members           which networks, and how each is fitted and validated
      ensemble_weights  the weights of networks, by their leave-one-out scores
    classifier, regressor, transformer
                 the public methods, and what they promise
      explaining   which training rows decided a prediction
      lazy         arrays of Dask
    turns        one model in several threads: who changes it, and what others see
    state        which version saved a model
    given        a layer, or weights, that are there already
    targets, labels, tails
                 what rows should be answered with, in numbers
"""
