"""Layers of tanh units, as a projector draws them."""

from sklearn_fsvc import TanhProjector

FROM_ROWS = ["class_informed", "constrained"]
IMAGES = {"image_shape": (6, 7)}


def layer(X, y, m=40, **params):
    p = TanhProjector(m, random_state=0, device="jit").set_params(**params).fit(X, y)
    return p.components_, p.hidden_intercept_
