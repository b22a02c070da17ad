"""What the estimators share.

A face and a family make an estimator::

    state        which version saved a model
    base         any face of a hidden layer: validate, choose the layer, stream
      transformer    H itself
      predictor      a linear readout of H, trained and applied
        sums           the same from sums of rows, solved when it is needed
          stream         rows that come and go: partial_fit, forget, merge
            class_stream   the same with classes
              classifier     all that is about classes
            regressor      all that is about numbers
    rbf, tanh, patches
                 a family, as a mixin: the parameters of its layer, and its choice
    turns        one model in several threads: who changes it, and what others see
    solved       attributes that are there once a readout is solved
    given        a layer that is there already
    targets      what rows should be answered with, in numbers
"""
