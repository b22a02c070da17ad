"""Layers of tanh units, drawn by a projector."""

from sklearn_fsvc import TanhProjector

SAMPLED_WEIGHTS = ["class_informed", "constrained"]
IMAGES = {"image_shape": (6, 7)}


def draw_layer(X, y, m=40, **params):
    p = TanhProjector(m, random_state=0, device="jit").set_params(**params).fit(X, y)
    return p.components_, p.hidden_intercept_
