"""The weights of tanh units: from chance or from rows, with receptive fields, and scaled."""
