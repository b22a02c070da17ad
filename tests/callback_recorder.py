"""A callback of scikit-learn 1.9 that records its calls."""


class Recorder:
    """Record the begin and end of tasks.

    Attributes
    ----------
    tasks : list of str
        Calls in their order, such as "begin fit".
    contexts : list
        Contexts of all tasks that ended.
    """

    max_propagation_depth = None

    def __init__(self):
        self.tasks, self.contexts = [], []

    def setup(self, estimator, context):
        self.tasks.append("setup")

    def teardown(self, estimator, context):
        self.tasks.append("teardown")

    def on_fit_task_begin(self, estimator, context, **kwargs):
        self.tasks.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.tasks.append(f"end {context.task_name}")
        self.contexts.append(context)
