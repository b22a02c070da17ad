"""Where the documentation of an estimator is, for the links in its picture in a notebook."""

URL = "https://sklearn-fsvc.github.io/sklearn-fsvc"


class Documented:
    """A mixin: scikit-learn's HTML view of an estimator links to its page in the docs.

    The two attributes are those that scikit-learn names for packages like this one. Each class
    has a page of its own, in which the link finds the parameter by its text.
    """

    _doc_link_module = "sklearn_fsvc"
    _doc_link_template = URL + "/classes/{estimator_name}.html"
