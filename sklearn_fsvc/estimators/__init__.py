"""What the estimators share.

A face and a family make an estimator::

    base         any face of a hidden layer: validate, choose the layer, stream
      transformer    H itself
      predictor      a linear readout of H, trained and applied
        classifier     all that is about classes
    rbf, tanh    a family, as a mixin: the parameters of its layer, and its choice
    targets      what rows should be answered with, in numbers
"""
