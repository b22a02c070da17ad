"""What the estimators share: validate, choose the layer, stream, solve, answer."""
